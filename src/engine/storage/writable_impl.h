/* writable_impl.h - between the files of writable.h. */
#pragma once

int writable_make(int dir); /* an empty storage in this directory; fine when it is there */
