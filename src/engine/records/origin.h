/* origin.h - origin.json in sandboxes/<id>/ and checkpoints/<id>/: what control needs to make a row of it again, in case the
 * store does not know it any more.  Control's words, kept as they came: the engine reads nothing of it.
 *
 * Not waited for on disk, and nothing fails for want of it: whoever promises that something is on disk flushes it with the
 * rest.  As secret as the memory and the files beside it. */
#pragma once
#include <jansson.h>

struct err;

#define ORIGIN_FILE "origin.json"

void origin_write(int dir, const char *whose /* for the log */, const json_t *origin /* NULL: what is there stays */);
void origin_put(int dir, const char *whose, const char *text, size_t len); /* the same, as it was encoded */
json_t *origin_read(int dir, struct err *err); /* new reference; NULL: there is none, or it is damaged: *err */
