/* multipart_head.h - the head of one part; only for multipart.c. */
#pragma once
#include "wire/multipart.h"

/* Read m->head (lines ending in CRLF, the last one empty) into m->name, m->filename, m->has_filename.
 * -EINVAL with m->why, -ENOMEM. */
int multipart_read_head(struct multipart *m);
