/* list_query.h - the query of GET /sandboxes, turned into that of the API's list.  Pure. */
#pragma once
#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"

struct err;

/* ?status=running,paused,stopped &limit= &cursor= &metadata.NAME=VALUE: "state=…&limit=…" appended to out.  *ret_finds_nothing: no
 * sandbox of these statuses is in a list.  ERR_INVALID names the parameter. */
int list_query_decode(struct str query, struct buf *out, bool *ret_finds_nothing, struct err *err);
