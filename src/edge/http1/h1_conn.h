/* h1_conn.h - an HTTP/1.1 connection: reads heads, runs one exchange at a time, and ends properly.  Its states: edge_client.h. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "edge/http1/tunnel.h"
#include "edge/message/head_scan.h"
#include "edge/proxy/client_conn.h"
#include "edge/proxy/edge_client.h"

struct h1_conn {
        struct client_conn conn;
        struct edge_client c;
        struct task gone;
        struct timer timer;
        enum { TIMER_NONE, TIMER_FIRST, TIMER_HEAD, TIMER_IDLE, TIMER_END, TIMER_HALF } timer_for;
        uint64_t idle_since_ms;
        struct head_scan scan; /* of an incomplete head */
        uint64_t drained_bytes;
        enum tunnel_state tunnel; /* CLIENT_TUNNEL; tunnel.c is the only writer */
        uint64_t half_bytes;      /* bytes that had passed through a half-closed tunnel when the timer last fired */
        bool is_settled;          /* the protocol is known */
        bool is_parked;           /* the client hung up while nobody wants its bytes (tunnel) */
};

static inline struct h1_conn *h1_of(struct edge_client *c)
{
        return CONTAINER_OF(c, struct h1_conn, c);
}

enum h1_conn_from { FROM_NETWORK, FROM_CLIENTS_SOCKET };
void h1_conn_create(struct edge *e, int fd, struct tls_context *tls, enum h1_conn_from from); /* takes the fd */
ssize_t h1_conn_fill(struct h1_conn *h); /* one read: > 0 bytes; 0 ended; -EAGAIN; other negative errno */
void h1_conn_want(struct h1_conn *h, uint32_t want);
/* The client hung up while nobody wants its bytes: out of the loop until h1_conn_want(). */
void h1_conn_park(struct h1_conn *h);

/* One end of the tunnel is closed: the tunnel stays while bytes come from the other end. */
void h1_conn_watch_half(struct h1_conn *h);

/* h1_answer.c: the parts of edge_client_kind that write answers. */
enum flow_step h1_answer_interim(struct edge_client *c, const struct http1_head *head);
void h1_answer_switch_over(struct edge_client *c, const struct http1_head *head);
enum flow_step h1_answer_begin(struct edge_client *c, const struct http1_head *head);
enum flow_step h1_answer_pull(struct edge_client *c);
enum flow_step h1_answer_flush(struct edge_client *c);
bool h1_answer_splice(struct edge_client *c);
int h1_answer_say(struct edge_client *c, const struct answer *a);
