/* json_blank.h - for processes that see secrets in JSON: what jansson kept, its parser included, is blanked before it is released. */
#pragma once

void json_blank_freed(void); /* from now on, in the whole process */
