/* build_process.h - a call for builds runs in a process of its own: a child of the daemon, which takes the connection, reads
 * the body, does the work, writes the answer and ends.  The daemon's loop never waits, and its memory does not grow.
 *
 * The child is root of the sandbox, as the daemon is.  When memory runs out, the kernel ends it before the daemon. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "base/auto.h"
#include "base/err.h"
#include "envd/build/byte_source.h"

struct handler_context;
struct http_request;

struct build_process {
        const struct handler_context *context;
        int fd; /* the connection */
        struct byte_source body;
        const struct url *url;
        bool has_answered;
};

/* Does the whole of one call, and answers it. */
typedef void (*build_work)(struct build_process *p);

/* The handler's last act: in the daemon the request is over with this call. */
void build_process_start(const struct handler_context *context, struct http_request *rq, build_work work);

/* ---- in the child ---- */

/* A whole answer.  Steals body; NULL: out of memory. */
void build_answer(struct build_process *p, unsigned status, json_t *body);
/* {"code":status,"message":...}: the status is that of the error's kind. */
void build_answer_error(struct build_process *p, const struct err *err);
/* An answer of unknown length: its head, then pieces, then the end.  Negative errno: nobody listens any more. */
int build_stream_begin(struct build_process *p, const char *content_type);
int build_stream_write(struct build_process *p, const void *bytes, size_t n);
int build_stream_end(struct build_process *p);
