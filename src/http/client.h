/* client.h - HTTP/1.1 client: requests to one server, over TCP, TLS, a Unix socket or a connection that is already there.
 *
 * A *client* knows the server and how long to wait for it.  A *call* is one request and its answer:
 *
 *      CONNECTING ──connected──> HEAD ──answer's head──> BODY ──last byte──> ENDED
 *           │ (next address)       │ (1xx: goes on)        │                   ▲
 *           └──────────────────────┴────── failure, time is up ────────────────┘
 *
 * and from anywhere to ABANDONED: http_call_free().  The request's body is sent while this goes on (`sending`).
 *
 * Two ways to use it:
 *   - on a loop: http_call_start() with callbacks.  They come from the loop, never out of http_call_start(); on_end is the
 *     last.  Any of them may call http_call_free().  Nothing blocks but http_client_create() where a host name is looked up.
 *   - blocking, for the command line and job processes: a client without a loop has one of its own, and http_client_run()
 *     runs the loop until the answer is complete.
 *
 * Streaming: the request's body is pulled from on_send when the last piece has left; the answer's is pushed to on_data,
 * which may take less than it is given: then nothing is read from the server until http_call_resume().
 *
 * Answers are parsed by wire/http1 (strict, bounded).  An answer that is cut off is an error, never a short body.
 * A server that answers before it has read the whole request is heard; the rest of the request is not sent then.
 * Redirects are answers like any other: they are not followed.
 *
 * Connections are kept for the next call where nothing can go wrong by it: for GET, HEAD, PUT, DELETE without on_send,
 * which are sent again on a new connection when the kept one turns out to be closed.  Others begin on a new one, but for
 * those with `reuses_connection`. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/str.h"
#include "http/header.h"
#include "io/loop.h"
#include "wire/http1.h"

struct addrinfo;
struct err;
struct tls_context; /* io/tls.h */
struct http_client; /* opaque */
struct http_call;   /* opaque */

/* How long to wait: 0 means the default, HTTP_NO_TIMEOUT for ever. */
#define HTTP_NO_TIMEOUT UINT32_MAX
#define HTTP_CONNECT_MS 10000u
#define HTTP_IDLE_MS 60000u

struct http_timeouts {
        uint32_t connect_ms; /* until the connection takes the first byte: all addresses and the TLS handshake */
        uint32_t idle_ms;    /* without a byte in either direction while it is the server's turn */
        uint32_t total_ms;   /* from start to end; by default for ever */
};

struct http_client_options {
        struct loop *loop; /* borrowed; NULL: the client makes one of its own, for http_client_run() */
        /* "http://host[:port]" or "https://host[:port]", without a path.  A name is looked up once, here. */
        const char *url;
        const char *unix_path; /* NULL: connect to the URL's host, else to this socket */
        /* Connect nowhere: all calls go over the one connection that http_client_give() hands over. */
        bool uses_given_connection;
        struct tls_context *tls; /* borrowed, from tls_client_context_create(); needed for https:// */
        struct addrinfo
                *addresses; /* of the URL's host, already looked up; owned from here on, also on failure; NULL: no */
        struct http_timeouts timeouts;
};

/* ERR_INVALID: the URL or the socket's path is not valid.  ERR_UNAVAILABLE: no such host. */
int http_client_create(const struct http_client_options *opt, struct http_client **ret, struct err *err);
/* Calls must have been freed. */
struct http_client *http_client_free(struct http_client *c);
/* A stream socket for the next call, of any blocking mode: connected or, without TLS, about to be.  Takes the fd, also on
 * failure. */
int http_client_give(struct http_client *c, int fd, struct err *err);
const char *http_client_host(const struct http_client *c); /* "host:port" as the URL has it: what Host says */
struct loop *http_client_loop(const struct http_client *c);
/* For calls that start from now on. */
void http_client_set_timeouts(struct http_client *c, const struct http_timeouts *timeouts);

struct http_call_options {
        const char *method, *target;       /* copied; the target is a path with query, as it is sent */
        const struct http_header *headers; /* copied; not Host, Connection, Content-Length, Transfer-Encoding */
        const char *content_type;          /* NULL: no such header */
        struct str body;                   /* copied */
        /* Instead of `body`: put up to n (> 0) bytes at p.  Returns how many; 0: that was all; -EAGAIN: nothing now, and
         * http_call_resume() says when; another negative errno ends the call with it. */
        ssize_t (*on_send)(struct http_call *call, void *p, size_t n, void *arg);
        int64_t send_bytes; /* how many on_send will give in all; -1: not known (sent in chunks) */
        const char *agent;  /* copied: User-Agent; NULL: "sandglass" */
        /* Begin on a kept connection also where the call cannot be sent again: it then fails in the rare case that the server
         * closes the connection at this very moment.  It is seen that the connection is open. */
        bool reuses_connection;
        bool is_secret; /* body and answer: what the call keeps of them is blanked before it is released */

        /* The answer's head is complete; http_call_head() has it until the call is freed.  NULL: not told. */
        void (*on_head)(struct http_call *call, void *arg);
        /* A piece of the answer's body.  Returns how many bytes were taken; fewer than all pause the answer.  NULL: dropped. */
        size_t (*on_data)(struct http_call *call, struct str piece, void *arg);
        /* The call is over.  why NULL: the answer is complete.
         * ERR_UNAVAILABLE: no connection, or the server ended it early.  ERR_TIMEOUT.  ERR_DENIED: the server's
         * certificate is not trusted.  ERR_INTERNAL: what came is not HTTP.  ERR_LIMIT: no memory. */
        void (*on_end)(struct http_call *call, const struct err *why, void *arg);
        void *arg;
};

/* ERR_INVALID: method, target or a header that HTTP does not allow.  ERR_UNAVAILABLE: the given connection is in use by
 * another call, or was closed. */
int http_call_start(struct http_client *c, const struct http_call_options *opt, struct http_call **ret,
                    struct err *err);
/* At any time, also in its callbacks: none comes after this.  NULL is fine. */
struct http_call *http_call_free(struct http_call *call);
/* Has a byte of the request left?  Before that, nothing can have come of it. */
bool http_call_has_sent(const struct http_call *call);
/* Go on with what a callback stopped: on_data took too little, or on_send had nothing. */
void http_call_resume(struct http_call *call);
const struct http1_head *http_call_head(const struct http_call *call); /* NULL: it is not complete yet */

/* ---- blocking ---- */

struct http_answer {            /* zeroed, or as http_answer_done() leaves it */
        struct http1_head head; /* its text lies in head_bytes */
        struct buf head_bytes;
        struct buf body;
};
void http_answer_done(struct http_answer *a);

/* One call from start to end on the client's own loop.  on_data NULL: the body is collected in ret->body, up to
 * body_max bytes (more is ERR_TOO_LARGE); on_end must be NULL.  -EINTR: see http_client_cancel_on().
 * The answer is written on success only. */
int http_client_run(struct http_client *c, const struct http_call_options *opt, size_t body_max,
                    struct http_answer *ret, struct err *err);
/* Once `fd` (borrowed) is readable, http_client_run() ends with -EINTR (err->sys EINTR); -1: no such fd. */
void http_client_cancel_on(struct http_client *c, int fd);
