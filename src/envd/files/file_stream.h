/* file_stream.h - a streamed answer made of pieces of text and of a file, read as fast as the client takes it, packed if asked
 * for.  Between a few reads others get their turn. */
#pragma once
#include <stdint.h>

#include "base/buf.h"
#include "io/loop.h"

struct gzip;
struct http_request;

#define PUMP_SEGMENTS_MAX 72
#define PUMP_TO_END UINT64_MAX

struct segment {
        struct buf text;         /* sent first; owned */
        uint64_t offset, length; /* then this of the file; length PUMP_TO_END: whatever comes until its end */
};

struct pump {
        int fd;            /* owned */
        struct gzip *gzip; /* owned; NULL: sent as it is */
        struct segment segments[PUMP_SEGMENTS_MAX];
        size_t count, at;
        struct loop *loop; /* borrowed */
        struct http_request *rq;
        struct task turn;
};

struct pump *pump_create(int fd); /* takes fd, also on failure; NULL out of memory */
void pump_free(struct pump *p);
/* Another segment, or NULL when there are too many. */
struct segment *pump_add(struct pump *p, uint64_t offset, uint64_t length);
uint64_t pump_length(const struct pump *p); /* of all of it, when no segment goes to the end */
/* http_start() has been called: send everything, end the answer.  Takes p; the request's user and callbacks are ours. */
void pump_start(struct pump *p, struct loop *loop, struct http_request *rq);
