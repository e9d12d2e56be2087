/* list_query.h - the query of GET /sandboxes, turned into those of the API's two lists.  Pure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

struct err;

#define LIST_QUERY_MAX (32u << 10)
#define LIST_CURSOR_STOPPED "stopped:" /* a cursor that begins with this is of the second list; else of the first */

struct list_query {
        uint32_t limit;
        bool wants_live, wants_stopped; /* those that run or are paused; those that have ended */
        struct buf live;                /* "&state=…&metadata=…", without the limit */
        struct buf stopped;             /* likewise */
};

/* ?status=running,paused,stopped &limit= &cursor= &metadata.NAME=VALUE.  The pages of the first list come before those of the second
 * one: what wants_live says of a cursor of the second list is false.  ERR_INVALID names the parameter.  On success *ret is the
 * caller's: list_query_done(). */
int list_query_decode(struct str query, struct list_query *ret, struct err *err);
void list_query_done(struct list_query *q);
