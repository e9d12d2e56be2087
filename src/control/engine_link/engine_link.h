/* engine_link.h - control's channel to the engine: calls with answers, facts, and coming back after either end restarted.
 *
 *   DOWN ──(connect)──→ SYNCING ──(the engine's list was taken in)──→ UP
 *     ↑__________________________(channel lost)_______________________│
 *
 * Calls that are started while the link is not UP wait, and leave in order once the link is UP.  A call whose channel is
 * lost before the answer ends with ERR_UNAVAILABLE: only the owner of the call knows whether to repeat the call. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/map.h"
#include "io/channel.h"
#include "io/loop.h"

struct err;
struct engine_link;

#define ENGINE_CALLS_MAX 4096 /* waiting and under way; more end at once with ERR_UNAVAILABLE */

struct engine_call { /* embedded in its owner; zeroed is fine */
        /* Called once, from the loop, never before engine_call() returns.  Success: err NULL, answer borrowed.
         * Failure: answer NULL, err is the engine's own or ours (ERR_UNAVAILABLE, ERR_TIMEOUT). */
        void (*on)(struct engine_call *c, const json_t *answer, const struct err *err);
        int *fd; /* while on() runs: the fd that came with the answer, to be taken (TAKE_FD(*c->fd)); NULL: none */
        bool is_unanswered; /* the ERR_TIMEOUT is ours, not the engine's: what became of the call is not known */
        /* the link's own */
        struct engine_link *link; /* NULL: not started */
        struct list node;
        struct timer timer;
        uint64_t req;
        json_t *msg; /* owned while the call waits to be sent */
};

struct engine_link_ops {
        /* The engine's answer to "list", after every connect and before any waiting call leaves. */
        void (*on_list)(const json_t *answer, void *arg);
        void (*on_exited)(const char *id, void *arg);
        void (*on_rechecked)(const json_t *fact, void *arg); /* what a job process of the engine before came to */
};

struct engine_link {
        struct loop *loop;
        char *path; /* owned */
        const struct engine_link_ops *ops;
        void *arg;
        enum { ENGINE_DOWN, ENGINE_SYNCING, ENGINE_UP } state;
        struct channel *channel; /* owned; NULL when down */
        struct timer retry;
        unsigned retry_ms;
        uint64_t last_req;
        struct list waiting, sent, failed; /* of struct engine_call */
        size_t call_count;
        struct map by_req; /* 8 bytes of req -> struct engine_call */
        struct engine_call list;
        struct task fail_task;
};

int engine_link_start(struct engine_link *l, struct loop *loop, const char *path, const struct engine_link_ops *ops,
                      void *arg);
/* Lose the channel and connect again: the list that follows tells what became of a call that was not answered. */
void engine_link_reset(struct engine_link *l);
void engine_link_stop(struct engine_link *l); /* calls end, and their owners are not told */

/* Start a call: msg is an object with "op", stolen.  c->on must be set, and c not under way. */
void engine_call(struct engine_link *l, struct engine_call *c, json_t *msg, unsigned timeout_ms);
void engine_call_cancel(struct engine_call *c); /* fine when not under way; a late answer is dropped */
static inline bool engine_call_is_started(const struct engine_call *c)
{
        return c->link;
}
static inline bool engine_call_is_sent(const struct engine_call *c)
{
        return c->link && !c->msg;
}
