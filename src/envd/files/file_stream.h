/* file_stream.h - a streamed answer made of pieces of text and of a file, read as fast as the client takes it,
 * compressed if asked for.  After a few reads other requests get their turn. */
#pragma once
#include <stdint.h>

#include "base/buf.h"
#include "io/loop.h"

struct gzip;
struct http_request;

#define FILE_STREAM_PARTS_MAX 72
#define FILE_STREAM_TO_END UINT64_MAX

struct file_stream_part {
        struct buf text;         /* sent first; owned */
        uint64_t offset, length; /* then this part of the file; FILE_STREAM_TO_END: up to its end */
};

struct file_stream {
        int fd;            /* owned */
        struct gzip *gzip; /* owned; NULL: not compressed */
        struct file_stream_part parts[FILE_STREAM_PARTS_MAX];
        size_t count, at;
        struct loop *loop; /* borrowed */
        struct http_request *rq;
        struct task turn;
};

struct file_stream *file_stream_create(int fd); /* takes fd, also on failure; NULL out of memory */
void file_stream_free(struct file_stream *s);
/* Add a part; NULL when there are too many. */
struct file_stream_part *file_stream_add(struct file_stream *s, uint64_t offset, uint64_t length);
uint64_t file_stream_length(const struct file_stream *s); /* of all parts, when none goes to the end of the file */
/* After http_start(): send everything and end the answer.  Takes s, and the request's user and callbacks. */
void file_stream_start(struct file_stream *s, struct loop *loop, struct http_request *rq);
