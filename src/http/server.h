/* server.h - HTTP/1.1 server connections on a loop, used by control and envd.
 *
 * One request at a time per connection; pipelined ones wait in the bounded input buffer.  The handler is called when a
 * head is complete.  It then either asks for the whole body (http_read_body), or takes it in pieces (http_stream_body),
 * or answers at once (an unread body is drained up to a limit, else the connection closes after the answer).
 * It answers once: http_reply*() whole, or http_start()/http_write()/http_end() as a chunked stream.
 * Callbacks come from the loop, never out of a call made here, and a request stays valid until its on_close.
 * A client that closes, or only stops sending, counts as gone while its answer is not complete: on_close comes at once.
 * Backpressure: http_write() queues; while more than HTTP_OUT_HIGH bytes wait, http_is_full() is true and the producer
 * stops until on_drain.  Reading from the client stops while nobody takes the body.
 * Malformed requests, 413, 431, timeouts and Expect: 100-continue are dealt with here, with {"code","message"} bodies. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"
#include "http/header.h"
#include "io/listener.h"
#include "io/loop.h"
#include "wire/http1.h"
#include "wire/url.h"

#define HTTP_OUT_HIGH (256u << 10)

struct http_server;
struct http_conn;

struct http_request {
        const struct http1_head *head; /* valid until the answer is complete */
        struct url url;
        struct http_conn *conn;
        struct http_server *server;
        void *user; /* the handler's own; freed by it in on_close */
        /* Called once when the exchange is over, in whatever way: answered completely, or the client left before.
         * `is_complete`: all of the answer was handed to the socket.  After it the request is gone. */
        void (*on_close)(struct http_request *rq, bool is_complete);
        void (*on_drain)(struct http_request *rq); /* the output queue is empty enough again */
};

struct http_server_options {
        struct loop *loop;
        void (*on_request)(struct http_request *rq, void *arg); /* the router */
        void *arg;
        /* 0: no limit, for each of them */
        unsigned head_timeout_ms; /* from first byte to complete head (408); also between body pieces */
        unsigned idle_timeout_ms; /* between requests */
        size_t conns_max;         /* further ones are refused with 503 */
        /* A client that takes no byte of an answer for so long, while bytes wait for it, is cut.  0: it may take as long as it
         * likes, as streams of envd promise. */
        unsigned stall_timeout_ms;
        /* The body of errors that are answered here, a new reference; NULL: {"code","message"}. */
        json_t *(*show_error)(unsigned status, const char *message);
};

int http_server_create(const struct http_server_options *opt, struct http_server **ret);
struct http_server *http_server_free(struct http_server *s); /* cuts what is open */
/* Listen on fd too (several may be added).  The server takes the fd. */
int http_server_listen(struct http_server *s, int fd);
/* Serve a connected socket, of any blocking mode; takes it, also on failure.  -ENOBUFS: over conns_max. */
int http_server_accept(struct http_server *s, int fd);
/* Graceful: stop accepting, close idle connections, let running exchanges end; `on_done` when none is left. */
void http_server_stop(struct http_server *s, void (*on_done)(void *arg), void *arg);
/* Cut every connection but rq's. */
void http_server_cut_others(const struct http_request *rq);
size_t http_server_conn_count(const struct http_server *s);

/* Collect the body up to max bytes, then call on_body.
 * Over max the client gets 413 and on_close follows.  `body` is valid until the answer is complete. */
void http_read_body(struct http_request *rq, size_t max, void (*on_body)(struct http_request *rq, struct str body));
/* Before that: the body and the answer are secrets.  What this connection keeps of them is blanked before it is released. */
void http_keep_secret(struct http_request *rq);
/* Take the body in pieces.  on_data returns how many bytes it took of at least one; fewer than given pauses reading
 * until http_resume_body().  on_end: all of it arrived. */
void http_stream_body(struct http_request *rq, size_t (*on_data)(struct http_request *rq, struct str piece),
                      void (*on_end)(struct http_request *rq));
void http_resume_body(struct http_request *rq);

/* Whole answers.  Content-Length is set; a body of NULL/0 sends Content-Length: 0 (204 and 304 send none). */
void http_reply(struct http_request *rq, unsigned status, const char *content_type, const struct http_header *extra,
                const void *body, size_t len);
void http_reply_json(struct http_request *rq, unsigned status, const struct http_header *extra,
                     json_t *body); /* steals body */
/* {"code":status,"message":"..."} */
void http_reply_error(struct http_request *rq, unsigned status, const char *fmt, ...) PRINTF(3, 4);

/* Streamed answer: head now, then pieces, then the end.  length >= 0: Content-Length; -1: chunked (or, to a 1.0
 * client, until close).  http_write returns 0, or negative errno when the client is gone (on_close comes anyway).
 * Small writes leave together at the end of the loop's iteration. */
void http_start(struct http_request *rq, unsigned status, const char *content_type, const struct http_header *extra,
                int64_t length);
int http_write(struct http_request *rq, const void *p, size_t n);
bool http_is_full(const struct http_request *rq);
size_t http_queued(const struct http_request *rq);
void http_end(struct http_request *rq);
/* Cut the connection without a proper end (the answer was begun and cannot be finished). */
void http_abort(struct http_request *rq);
/* Send the file's bytes [offset, offset+length) as the body after http_start() with that length, then end; takes fd. */
void http_send_file(struct http_request *rq, int fd, uint64_t offset, uint64_t length);

/* Another process does the rest of the exchange: the handler forks, the child takes the connection, and the parent leaves
 * it.  Nothing of the body was asked for yet, and nothing answered. */
struct http_taken {
        int fd;                 /* the child's own now: non-blocking */
        struct str read;        /* bytes of the body that were read already; valid as long as the child */
        struct http1_body body; /* how the body goes on */
};
void http_take(struct http_request *rq, struct http_taken *ret); /* in the child, which never runs the loop again */
void http_leave(struct http_request *rq); /* in the parent: on_close comes, the connection stays the child's */
