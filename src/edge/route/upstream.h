/* upstream.h - a connection to envd, to a port of a sandbox, or to control; and those kept for the next request.
 *
 * Invariant: a connection is only ever reused for the same sandbox and port, and only when the last answer on it ended
 * exactly where its framing said and nothing came after it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "edge/message/block.h"
#include "edge/message/head_scan.h"
#include "io/stream.h"

struct edge_client;
struct edge;
struct routed_sandbox;

struct upstream {
        struct stream stream;
        struct edge *edge;
        struct edge_client *client;     /* whose exchange it serves; NULL: idle */
        struct routed_sandbox *sandbox; /* borrowed; NULL: control */
        uint16_t port;
        uint64_t made_us;      /* in the sandbox, on the machine's monotonic clock; 0: not known */
        bool is_reused;        /* has served a request before */
        bool is_ended;         /* no more bytes will come */
        bool is_broken;        /* ... because the connection failed */
        bool is_parked;        /* hung up while nobody wants its bytes: out of the loop until someone does */
        struct block in;       /* owned: bytes not dealt with */
        struct head_scan scan; /* of the head in `in` */
        uint64_t idle_until_ms;
        struct list idle, lru;
        struct task gone;
};

/* Takes the fd.  NULL: out of memory or fds. */
struct upstream *upstream_create(struct edge *e, int fd, struct routed_sandbox *s, uint16_t port);
/* Closes at once (also when the other side still sends); freed after this iteration. */
void upstream_close(struct upstream *u);
/* An idle connection of that kind, or NULL. */
struct upstream *upstream_reuse(struct edge *e, struct routed_sandbox *s, uint16_t port);
void upstream_keep(struct upstream *u);                               /* done with it: for the next one */
void upstream_drop_idle(struct routed_sandbox *s);                    /* close all that are kept for this sandbox */
struct upstream *upstream_to_control(struct edge *e, int *ret_error); /* a new connection; NULL: *ret_error says why */
void upstream_want(struct upstream *u, uint32_t want);
void upstream_park(struct upstream *u); /* hung up while nobody wants its bytes */
/* One read.  > 0 bytes; 0 ended; -EAGAIN; other negative errno. */
ssize_t upstream_fill(struct upstream *u);
void upstream_setup(struct edge *e);
void upstream_done(struct edge *e);
