/* list_query.h - the query of GET /sandboxes, turned into that of the API's list.  Pure. */
#pragma once
#include "base/buf.h"
#include "base/str.h"

struct err;

/* ?status=running,paused &limit= &cursor= &metadata.NAME=VALUE: "state=…&limit=…" appended to out.  ERR_INVALID names the
 * parameter. */
int list_query_decode(struct str query, struct buf *out, struct err *err);
