/* h2_stream.h - one HTTP/2 request: a client whose bytes come and go as frames.
 *
 * Up: DATA waits in client.in and `more`; the window is given back only as upstream takes the bytes, so that at most a window's
 * worth waits.  Down: the library asks for bytes when they can be sent and takes them out of the upstream's block. */
#pragma once
#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "edge/proxy/edge_client.h"

struct h2_session;

/* The answer of a stream: MOVING ←→ DEFERRED, MOVING ──→ SAID. */
enum h2_answer_state {
        H2_ANSWER_MOVING,   /* not begun, or the library asks for the next bytes when it can send them */
        H2_ANSWER_DEFERRED, /* the library waits to be told that there are bytes */
        H2_ANSWER_SAID,     /* the end of the answer was sent */
};

struct h2_stream {
        struct edge_client c;
        struct h2_session *h2; /* borrowed */
        int32_t id;
        struct list node;    /* in h2->streams */
        struct list touched; /* in h2->touched */
        struct list more;    /* struct h2_piece: what client.in has no room for */
        size_t waiting;      /* bytes of the body in client.in and more */
        bool is_open;        /* the library knows the stream */
        enum h2_answer_state answer;
        bool is_tunnel;
        unsigned refused_with; /* the head cannot be used: the status of the answer */
        const char *why;
        struct task gone;
};

/* The head in h2->head is complete.  NULL: out of memory. */
struct h2_stream *h2_stream_create(struct h2_session *h, int32_t id, bool is_ended);
int h2_stream_data(struct h2_stream *st, const uint8_t *p, size_t n); /* body bytes came; -ENOMEM */
void h2_stream_touch(struct h2_stream *st);
void h2_stream_answer_go(struct h2_stream *st, enum h2_answer_state next); /* the only writer of st->answer */
/* nghttp2_data_source_read_callback. */
ssize_t h2_stream_read(nghttp2_session *session, int32_t id, uint8_t *to, size_t room, uint32_t *flags,
                       nghttp2_data_source *source, void *arg);

/* h2_answer.c: the parts of edge_client_kind that write answers. */
enum flow_step h2_answer_interim(struct edge_client *c, const struct http1_head *head);
void h2_answer_switch_over(struct edge_client *c, const struct http1_head *head);
enum flow_step h2_answer_begin(struct edge_client *c, const struct http1_head *head);
int h2_answer_say(struct edge_client *c, const struct answer *a);

static inline struct h2_stream *h2_stream_of(struct edge_client *c)
{
        return CONTAINER_OF(c, struct h2_stream, c);
}
