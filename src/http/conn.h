/* conn.h - what the files of the HTTP server share: a connection, and the exchange on it.
 *
 * A connection goes through
 *
 *      IDLE ──first byte──> HEAD ──complete──> EXCHANGE ──answered──> IDLE
 *                                                 │  └──body not read──> DRAIN ──> IDLE
 *                                                 └──not kept alive──> LINGER ──peer closes──> CLOSED
 *
 * and from anywhere to CLOSED.  Within EXCHANGE the request's body and the answer move on independently (`taking`,
 * `reply`).  Calls of a handler only change the state and post `task`; callbacks, the end of an exchange and freeing
 * happen in conn_ready() and in the task, so a handler never finds its request gone under its feet.
 * An idle connection owns no buffers. */
#pragma once
#include <stdint.h>

#include "http/server.h"

#define HTTP_PIECE_BYTES (64u << 10) /* one read of a body */
#define HTTP_HEAD_PIECE_BYTES 4096u  /* one read of a head */
#define HTTP_OUT_MAX (64u << 20)     /* what a producer that never looks at http_is_full() may queue */
#define HTTP_SMALL_BYTES (8u << 10)  /* less waits for the end of the iteration, to leave with what follows */
#define HTTP_DRAIN_MAX (256u << 10)  /* of an unread body, to keep the connection */
#define HTTP_LINGER_MAX (16u << 20)  /* of what still comes after the last answer */
#define HTTP_LINGER_MS 2000u
#define HTTP_SENDFILE_BYTES (1u << 20)

enum conn_state { CONN_IDLE, CONN_HEAD, CONN_EXCHANGE, CONN_DRAIN, CONN_LINGER, CONN_CLOSED };

enum taking { TAKE_NOT_YET, TAKE_COLLECT, TAKE_STREAM, TAKE_DISCARD };
enum reply { REPLY_NONE, REPLY_STARTED, REPLY_ENDED };

struct http_exchange {
        struct http_request rq;
        struct http1_head head;
        struct buf head_mem; /* the bytes head points into */
        bool keep_alive;
        bool is_refused; /* answered here, not by the handler, which may not know yet */
        bool is_over;    /* on_close was called */

        /* the request's body */
        struct http1_body body;
        enum taking taking;
        bool body_is_done, is_paused, is_end_told, has_continued;
        struct str piece;  /* decoded, in conn->in, not yet taken */
        size_t piece_used; /* bytes of conn->in to consume after it */
        uint64_t discarded;
        struct buf collected;
        void (*on_body)(struct http_request *rq, struct str body);
        size_t (*on_data)(struct http_request *rq, struct str piece);
        void (*on_end)(struct http_request *rq);

        /* the answer */
        enum reply reply;
        bool is_chunked, has_no_body, is_choked;
        int64_t left; /* of the announced length; -1: none announced */
        int file;     /* owned, or -1 */
        uint64_t file_at, file_left;
};

struct http_conn {
        struct io io;
        struct http_server *server;
        struct list node;
        enum conn_state state;
        struct timer timer; /* what it means depends on the state */
        struct timer stall; /* armed while bytes wait for a client that takes none (stall_timeout_ms) */
        struct task task;
        struct buf in, out;
        struct http_exchange *ex; /* owned; from the first byte of a request on */
        uint64_t lingered;
        bool is_blocked; /* the socket took less than offered: wait for EPOLLOUT */
        bool has_moved;  /* the socket took something since `stall` was set */
};

struct http_server {
        struct loop *loop;
        struct http_server_options opt;
        struct list conns, listeners;
        size_t conn_count;
        bool is_stopping;
        void (*on_stopped)(void *arg);
        void *stopped_arg;
        struct task stopped_task;
        int64_t date_s; /* second that `date` tells */
        char date[32];
};

static inline struct http_exchange *exchange_of(const struct http_request *rq)
{
        return CONTAINER_OF(rq, struct http_exchange, rq);
}

/* conn.c */
int conn_create(struct http_server *s, int fd); /* takes the fd */
void conn_free(struct http_conn *c);            /* at once; tells the handler */
void conn_cut(struct http_conn *c);             /* dead from now on; the task tells the handler and frees */
void conn_close_if_idle(struct http_conn *c);
static inline void conn_post(struct http_conn *c)
{
        loop_post(c->server->loop, &c->task);
}

/* body.c */
bool body_step(struct http_conn *c); /* move on with the request's body; false: nothing more can be done */
bool body_wants_input(const struct http_exchange *ex); /* it waits for the client */
bool body_is_discardable(const struct http_exchange *ex);

/* reply.c */
void reply_refuse(struct http_conn *c, unsigned status, const char *why); /* answer here, then close */

/* out.c */
void out_flush(struct http_conn *c); /* send what waits; may cut */
/* Send head (all of c->out) and p at once and queue what is left; may cut. */
void out_send(struct http_conn *c, const struct iovec *iov, int n);
static inline bool out_is_empty(const struct http_conn *c)
{
        return c->out.len == 0 && (!c->ex || c->ex->file < 0);
}

/* server.c */
void server_conn_gone(struct http_server *s);
const char *server_date(struct http_server *s);
