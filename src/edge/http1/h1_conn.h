/* h1_conn.h - an HTTP/1.1 connection: reads heads, runs one exchange at a time, and ends properly.  Its states: client.h. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "edge/proxy/edge_client.h"
#include "edge/proxy/client_conn.h"
#include "edge/message/head_scan.h"

struct h1 {
        struct conn conn;
        struct client c;
        struct task gone;
        struct timer timer;
        enum { TIMER_NONE, TIMER_FIRST, TIMER_HEAD, TIMER_IDLE, TIMER_END, TIMER_HALF } timer_for;
        uint64_t idle_since_ms;
        struct head_scan scan; /* of an incomplete head */
        uint64_t drained_bytes;
        uint64_t half_bytes; /* what had passed through a half-closed tunnel when it was last looked at */
        bool is_settled;     /* it is known which protocol it speaks */
        bool is_parked;      /* hung up while nobody wants its bytes (tunnel) */
};

static inline struct h1 *h1_of(struct client *c)
{
        return CONTAINER_OF(c, struct h1, c);
}

void h1_create(struct edge *e, int fd, struct tls_context *tls); /* takes the fd */
ssize_t h1_fill(struct h1 *h); /* one read: > 0 bytes; 0 ended; -EAGAIN; other negative errno */
void h1_want(struct h1 *h, uint32_t want);
void h1_park(struct h1 *h); /* hung up while nobody wants its bytes: out of the loop until h1_want() */

void h1_watch_half(struct h1 *h); /* one end of the tunnel is closed: it lives as long as bytes come from the other */

/* h1_answer.c: the parts of client_kind that say things. */
enum flow_step h1_interim(struct client *c, const struct http1_head *head);
void h1_switch_over(struct client *c, const struct http1_head *head);
enum flow_step h1_begin(struct client *c, const struct http1_head *head);
enum flow_step h1_pull(struct client *c);
enum flow_step h1_flush(struct client *c);
bool h1_shortcut(struct client *c);
int h1_say(struct client *c, const struct answer *a);
