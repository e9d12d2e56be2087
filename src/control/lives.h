/* lives.h - the lives of all sandboxes: started, expiring, ended, and put right after a restart of either side.
 *
 * Invariants:
 *  - a sandbox has a row in the store before the engine hears of it, and none when the engine is told to end it; so a
 *    sandbox that lives without a row is one to end, and a row without a living sandbox is one to remove;
 *  - the edges are told "gone" before the engine is told to end it;
 *  - one timer runs, for the nearest deadline. */
#pragma once
#include <jansson.h>
#include <stdint.h>

#include "base/list.h"
#include "base/map.h"
#include "control/engine_link.h"
#include "io/loop.h"
#include "model/deadlines.h"
#include "model/sandbox.h"

struct err;
struct feed;
struct keys;
struct life;
struct lives;
struct store;
struct team;

struct life_waiter { /* embedded in whoever waits for the end of a life; zeroed: waits for nothing */
        struct list node;
        void (*on)(struct life_waiter *w, const struct err *err); /* err NULL: it is gone.  Called once. */
};

struct life {
        struct lives *lives;
        struct sandbox sandbox;
        struct team *team; /* borrowed; NULL: a stranger, found living without a row */
        uint32_t timeout_s;
        struct deadline deadline;
        struct list node;        /* among the team's or strangers: all lives */
        struct list waiters;     /* for its end */
        struct engine_call call; /* its create, then its kill */
        struct timer retry;      /* of the kill */
        unsigned retry_ms;
        bool is_listed; /* mark while reconciling */
        /* The one who asked for the start; NULL: nobody any more.  `l` is NULL when it failed. */
        void (*on_started)(struct life *l, const struct err *err, void *arg);
        void *arg;
        uint64_t cpu_us, cpu_at_us; /* last sample of its CPU time, and when (monotonic) */
};

struct lives_options {
        struct loop *loop;
        struct store *store;
        struct feed *feed;
        struct keys *keys;
        struct engine_link *engine;
        json_t *(*route)(const struct sandbox *s, void *arg); /* how edges see a running one; new reference */
        void *arg;
        int64_t (*now_ns)(void); /* real time */
};

struct lives {
        struct lives_options o;
        struct map by_id; /* -> struct life, owned */
        struct list all;  /* the same, in no order */
        size_t running;
        struct deadlines deadlines;
        struct timer timer; /* for the first of them */
        struct timer tidy;  /* the store, when there is nothing to do */
};

int lives_init(struct lives *ls, const struct lives_options *o, struct err *err); /* takes in what the store has */
void lives_done(struct lives *ls);                                                /* sandboxes go on without us */

/* Start a life: s is moved from; plan is the engine's, stolen.  on_started is called once, later, unless abandoned.
 * ERR_INTERNAL and others from the store: nothing was begun. */
int lives_start(struct lives *ls, struct sandbox *s, json_t *plan, uint32_t timeout_s,
                void (*on_started)(struct life *l, const struct err *err, void *arg), void *arg, struct err *err);
/* Nobody will learn this id: end it, at once or when it has started. */
void lives_abandon(struct lives *ls, const char *id);

struct life *lives_find(const struct lives *ls, const char *id);                          /* any state; or NULL */
struct life *lives_find_of(const struct lives *ls, const char *id, const struct team *t); /* and not STARTING */

/* End it.  w (may be NULL) is told; one that is being ended already is joined. */
void life_kill(struct life *l, const char *why, struct life_waiter *w);
/* Move its end; one in the past ends it now. */
int life_set_end(struct life *l, int64_t end_ns, struct err *err);

/* For the engine link. */
void lives_reconcile(struct lives *ls, const json_t *sandboxes);
void lives_exited(struct lives *ls, const char *id);
