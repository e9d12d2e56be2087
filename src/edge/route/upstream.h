/* upstream.h - a connection to envd, to a port of a sandbox, to control or to the role agent; and the connections kept for the next request.
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

struct edge_limits;
struct routed_sandbox;
struct visit;

enum upstream_role { UPSTREAM_CONTROL, UPSTREAM_AGENT, UPSTREAM_ROLES };

struct upstream_pool {     /* what all connections share, and those that are kept */
        struct loop *loop; /* borrowed, like the next three */
        const struct edge_limits *limits;
        struct block_pool *blocks;
        const char *role_paths[UPSTREAM_ROLES]; /* their sockets */
        bool is_closing;                        /* the role ends: nothing is kept any more */
        struct list api_idle;                   /* connections to roles; those to a sandbox are in its `idle` */
        size_t api_idle_count;
        struct list idle_lru; /* all idle connections, oldest first */
        size_t idle_count;
        struct timer sweep_timer;
        uint64_t sweep_ms; /* when the timer fires */
};

enum upstream_input { UPSTREAM_OPEN, UPSTREAM_ENDED, UPSTREAM_FAILED }; /* no way back from the last two */

struct upstream {
        struct stream stream;
        struct upstream_pool *pool;     /* borrowed */
        struct visit *visit;            /* whose request the connection serves; NULL: idle */
        struct routed_sandbox *sandbox; /* borrowed; NULL: a role */
        uint16_t port;                  /* of a role: enum upstream_role */
        uint64_t made_us;               /* in the sandbox, on the machine's monotonic clock; 0: not known */
        bool is_reused;                 /* has served a request before */
        enum upstream_input input;      /* upstream_fill() is the only writer */
        bool is_parked;  /* the server hung up while nobody wants its bytes: out of the loop until somebody does */
        struct block in; /* owned: bytes not dealt with */
        struct head_scan scan; /* of the head in `in` */
        uint64_t idle_until_ms;
        struct list idle, lru;
        struct task gone;
};

struct upstream_pool_options { /* all borrowed */
        struct loop *loop;
        const struct edge_limits *limits;
        struct block_pool *blocks;
        const char *role_paths[UPSTREAM_ROLES];
};
void upstream_pool_init(struct upstream_pool *p, const struct upstream_pool_options *o);
void upstream_pool_done(struct upstream_pool *p); /* closes the idle connections */

/* Takes the fd.  NULL: out of memory or fds. */
struct upstream *upstream_create(struct upstream_pool *p, int fd, struct routed_sandbox *s, uint16_t port);
/* A new connection to a role.  NULL: *ret_error says why. */
struct upstream *upstream_to_role(struct upstream_pool *p, enum upstream_role role, int *ret_error);
/* Closes at once (also when the other side still sends); freed after this iteration. */
void upstream_close(struct upstream *u);
/* An idle connection to that sandbox and port (NULL: to a role), or NULL. */
struct upstream *upstream_reuse(struct upstream_pool *p, struct routed_sandbox *s, uint16_t port);
void upstream_keep(struct upstream *u);            /* the request is done: keep the connection for the next one */
void upstream_drop_idle(struct routed_sandbox *s); /* close all that are kept for this sandbox */
void upstream_want(struct upstream *u, uint32_t want);
void upstream_park(struct upstream *u);                       /* the server hung up while nobody wants its bytes */
static inline bool upstream_is_over(const struct upstream *u) /* no more bytes will come */
{
        return u->input != UPSTREAM_OPEN;
}
/* One read, noted in u->input.  > 0 bytes; 0 ended; -EAGAIN; other negative errno. */
ssize_t upstream_fill(struct upstream *u);
