/* helper.h - a child process of the engine that may block, and the engine's end of the socket to it.
 *
 * Messages are small structs with fds, one per packet.  A helper ends when its socket closes, and is killed when the
 * engine dies, so that a new engine never meets an old helper. */
#pragma once
#include <stddef.h>
#include <sys/types.h>

#include "io/loop.h"

struct err;

#define HELPER_MESSAGE_MAX 512u      /* of a helper's */
#define HELPER_SEND_MAX (100u << 10) /* to a helper; what a socket takes as one packet on any host */
#define HELPER_FDS_MAX 12u
#define HELPER_QUEUE_MAX 65536u

struct helper {
        struct io io; /* our end of the socket */
        struct loop *loop;
        struct list out; /* messages the socket did not take */
        size_t queued;
        void (*on_message)(struct helper *h, const void *p, size_t n, int *fds, size_t nfds); /* fds are the callee's */
        void (*on_gone)(struct helper *h); /* it died; the helper is stopped already; NULL: nobody cares */
        /* NULL: its owner sees to a successor.  Else called after on_gone, later each time that fails: fork another, take it
         * into the loop with helper_start(), and tell it again what the dead one was told and did not do. */
        int (*again)(struct helper *h, struct err *err);
        const char *name; /* for the log; with `again` */
        struct timer retry;
        struct loop *home; /* where the successor is started */
        uint64_t started_ms;
        unsigned failures; /* in a row */
};

/* Fork: 0 in the child (with *ret_sock its end), its pid in the parent.  In the child only 0-2, `keep` and the socket are
 * open, signals are as at start, children are reaped by themselves. */
pid_t helper_fork(const char *name, const int *keep, size_t nkeep, int *ret_sock);

/* Take sock (the parent's end, closed on failure) into the loop; set on_message before, and on_gone, again, name if wanted. */
int helper_start(struct helper *h, struct loop *l, int sock);
void helper_stop(struct helper *h); /* closes the socket: the child ends, and gets no successor */
void helper_end(struct helper *h);  /* the same, as if it had died */
/* Close it, but wait until it has done what it was told and ended; what it says on the way is dropped.  Blocks. */
void helper_finish(struct helper *h, int timeout_ms);
static inline bool helper_is_running(const struct helper *h)
{
        return h->loop != NULL;
}
/* fds are duplicated by the kernel; the caller keeps its own.  -EPIPE not running, or it has died; -ENOBUFS. */
int helper_send(struct helper *h, const void *p, size_t n, const int *fds, size_t nfds);
