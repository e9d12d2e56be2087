/* client_impl.h - what the files of the HTTP client share: a client, its connections, a call. */
#pragma once
#include <netdb.h>

#include "base/err.h"
#include "http/client.h"
#include "http/origin.h"
#include "io/stream.h"

#define CLIENT_PIECE_BYTES (64u << 10)       /* one read of an answer's body */
#define CLIENT_HEAD_PIECE_BYTES 4096u        /* one read of an answer's head */
#define CLIENT_SEND_BYTES (64u << 10)        /* one piece of a request's body */
#define CLIENT_REQUEST_BYTES_MAX (64u << 20) /* head and body of a request whose body is given whole */
#define CLIENT_INTERIM_MAX 8u                /* answers of 1xx before the real one */
#define CLIENT_KEEP_MS 10000u                /* a connection that nobody uses */

struct http_client_conn { /* connected; owned by the call that uses it, or by the client */
        struct stream stream;
        struct http_client *client; /* borrowed */
        struct http_call *call;     /* borrowed; NULL: kept for the next one */
};

struct http_client {
        struct loop *loop;
        bool owns_loop, uses_given_connection;
        struct http_origin origin;
        char *unix_path;            /* owned, or NULL */
        struct addrinfo *addresses; /* owned; NULL: Unix socket, or a given connection */
        struct tls_context *tls;    /* borrowed; NULL: plain */
        struct http_timeouts timeouts;
        struct http_client_conn *kept; /* owned, or NULL */
        struct timer keep_timer;
        int cancel; /* borrowed, or -1 */
        unsigned call_count;
};

enum call_state { CALL_CONNECTING, CALL_HEAD, CALL_BODY, CALL_ENDED, CALL_ABANDONED };

/* The request.
 *
 *      BYTES ──on_send has nothing──> WAITS ──http_call_resume()──> BYTES
 *        └──all sent, or the server takes no more──> OVER */
enum call_sending { SENDING_BYTES, SENDING_WAITS, SENDING_OVER };

struct http_call {
        struct http_client *client;   /* borrowed */
        struct http_call_options opt; /* callbacks and arg; what it points to was copied, or is gone */
        struct http_timeouts timeouts;
        enum call_state state;
        bool is_running;    /* in call_advance(): callbacks must not free under its feet */
        bool has_moved;     /* bytes went either way since the timer was set */
        bool is_repeatable; /* may be sent again on another connection */
        bool is_on_kept;    /* the connection served others before */
        bool has_sent;      /* bytes of the request left */
        struct timer timer; /* of connecting, then of idling */
        struct timer total_timer;
        struct task task;
        struct err why; /* ERR_NONE: no failure so far */

        struct io connecting; /* the socket under way; fd -1: none */
        const struct addrinfo *next_address;
        struct http_client_conn *conn; /* owned; NULL: none yet, or no more */

        enum call_sending sending;
        struct buf out;
        size_t out_sent; /* of out; it is kept whole while the request may have to be repeated */
        int64_t send_left;
        bool is_chunked;

        bool to_head; /* the answer to HEAD has no body */
        bool has_head, is_paused;
        struct buf in, head_bytes;
        struct http1_head head;
        struct http1_body body;
        unsigned interims;
        struct str piece;  /* decoded, in `in`, not taken yet */
        size_t piece_used; /* bytes of `in` to consume after it */
};

/* client.c */
int client_conn_create(struct http_client *c, int fd, struct http_client_conn **ret); /* takes the fd */
struct http_client_conn *client_conn_free(struct http_client_conn *conn);
/* 0; -EPIPE: there is none, or it was closed; another negative errno: why it cannot be used. */
int client_take_kept(struct http_client *c, struct http_client_conn **ret);
void client_keep(struct http_client *c, struct http_client_conn *conn);

/* client_call.c */
void call_go(struct http_call *call, enum call_state next); /* the only writer of call->state */
void call_advance(struct http_call *call);                  /* do all that can be done now */
/* End with a failure: of the kind, or what errno r means; "..." says what was tried.  The first one counts. */
void call_fail(struct http_call *call, enum err_kind kind, const char *fmt, ...) PRINTF(3, 4);
void call_fail_sys(struct http_call *call, int r, const char *what);
bool call_is_exchanging(const struct http_call *call);

/* client_connect.c */
void call_connect(struct http_call *call);       /* a step: until the connection has taken the first byte */
void call_connect_close(struct http_call *call); /* the socket under way and the connection */

/* client_send.c */
int call_write_request(struct http_call *call, const struct http_call_options *opt); /* 0 or negative errno */
void call_send(struct http_call *call);                                              /* a step */
static inline size_t call_unsent(const struct http_call *call)
{
        return call->out.len - call->out_sent;
}

/* client_receive.c */
void call_receive(struct http_call *call); /* a step */
