/* replace_file.h - a file that is replaced whole: readers see the old one or the new one, also after a crash. */
#pragma once
#include "base/buf.h"

struct err;

struct file_replacement {
        char *path;      /* owned: without symbolic links */
        char *temporary; /* owned: beside it; NULL: not made yet */
};

/* Before the work that leads to the new content: fails where it could not be written anyway.  On success *ret is the caller's. */
int file_replacement_prepare(struct file_replacement *ret, const char *path, struct err *err);
/* Consumes `content`.  Mode and owner are those of the old file. */
int file_replacement_write(struct file_replacement *f, struct buf *content, struct err *err);
void file_replacement_done(struct file_replacement *f); /* what was not written leaves nothing behind */
