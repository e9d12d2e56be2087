/* lives.h - the lives of all sandboxes: started, paused, resumed, copied, expiring, ended, and put right after a restart
 * of either side.
 *
 * Invariants:
 *  - a sandbox has a row in the store before the engine hears of the sandbox, and until the engine has said that nothing of
 *    the sandbox is left; the row of a sandbox that is to be ended says so (KILLING, or STARTING at a start of control).  A
 *    sandbox that the engine has and no row names was not made by this store: it is moved aside (the engine's lost/), and
 *    never ended because a row is missing;
 *  - what a transition is about to do is in the row before the engine hears of it; what the engine then says it has
 *    (its answer, its list after a reconnect, a "rechecked" fact) decides how the transition ended;
 *  - the edges are told "gone" or "paused" before the engine is told to end or pause the sandbox;
 *  - PAUSED is reported only when the engine and the store have the pause on disk;
 *  - one timer runs, for the nearest deadline;
 *  - a sandbox has the time it was promised: when the real-time clock is set, the ends of running sandboxes move along. */
#pragma once
#include <assert.h>
#include <jansson.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "base/map.h"
#include "control/access/tokens.h"
#include "control/catalogue/durable.h"
#include "control/engine_link/engine_link.h"
#include "control/life/journal.h"
#include "io/loop.h"
#include "model/deadlines.h"
#include "model/sandbox.h"

struct conf;
struct ended_files;
struct image_taker;
struct keys;
struct life;
struct lives;
struct refs;
struct snapshot;
struct store;
struct team;
struct tokens;

struct life_waiter { /* embedded in what waits for the end of a transition; zeroed: waits for nothing */
        struct list node;
        /* Called once, when the transition is over: RUNNING, PAUSED or GONE has been reached, or KILLING begun.  err: the
         * transition did not end as it was meant to (of a kill: the sandbox has not ended yet).  The life may be gone, or in
         * another state already, when other waiters were told before. */
        void (*on)(struct life_waiter *w, enum sandbox_state reached, const struct err *err);
};

enum life_step { /* what is under way in a transition */
                 STEP_NONE,
                 STEP_TAKE_COPY, /* asked of the engine, as the next six */
                 STEP_PAUSE,
                 STEP_SEAL,
                 STEP_FLUSH,
                 STEP_KEEP, /* SNAPSHOTTING: the sandbox stays paused after all */
                 STEP_CREATE,
                 STEP_END,
                 STEP_SYNC,       /* the store is being flushed */
                 STEP_SYNC_FIRST, /* the same, and then comes STEP_END */
};

enum pause_cause {              /* why a sandbox is PAUSING; what becomes of a pause that fails depends on it */
                   PAUSE_ASKED, /* by a request: the sandbox runs on */
                   PAUSE_EXPIRED, /* its time is up: without memory where its processes cannot be saved; else later again */
                   PAUSE_ENVD_SILENT, /* it was resumed, and its envd does not answer: without memory */
};

struct life {
        struct lives *lives;
        struct sandbox sandbox;
        struct team *team; /* borrowed; NULL: that of a build, which no team sees */
        struct deadline deadline;
        struct list node;      /* among all lives */
        struct list waiters;   /* for the end of the transition */
        char token[TOKEN_MAX]; /* envd's, as signature_owners.c derived it; "": not needed yet */
        /* the transition */
        enum life_step step;
        struct engine_call call; /* the step at the engine */
        struct durable_waiter synced;
        struct image_taker *taker;   /* of the copy; borrowed; NULL: nobody wants a copy (any more) */
        char sealing[SEALED_ID_MAX]; /* the layer to be made of the upper directory or a copy of it; held; "": none */
        char copying[CHECKPOINT_ID_MAX]; /* STEP_TAKE_COPY: the checkpoint to be made, for the taker; held; "": none */
        char below[LAYER_ID_MAX];        /* life_commit(); "": all files */
        bool with_memory;                /* RESUMING: from the checkpoint */
        enum pause_cause pause_cause;
        bool is_retried; /* SNAPSHOTTING, ROLLING_BACK: to begin the sandbox again failed once */
        bool is_busy;    /* the engine's list says so; counted in lives.busy */
        /* PAUSE_ENVD_SILENT, or STEP_KEEP: the sandbox is paused because of this, and the waiters are told so. */
        struct err failure;
        int64_t was_started_ns, was_end_ns; /* RESUMING: what to show when it fails */
        /* A row or files on disk may say that the sandbox is paused: a power cut must not bring them back after its end. */
        bool was_paused;
        bool is_unwritten; /* its row is out of date: to be written again, at the latest before it is begun again */
        const char *end_reason; /* for the journal; static; NULL: it could not go on */
        bool was_starting;      /* KILLING: as far as its row knows, no client was ever told of the sandbox */
        /* names in its row: refs.h */
        char held_checkpoint[CHECKPOINT_ID_MAX];
        json_t *held_layers;
        /* Its layers with a run of them merged; held; NULL: none.  Used when its upper directory is sealed the next time: only
         * then is it certain that no frozen process of the sandbox is left on the old layers. */
        json_t *merged_layers;
        /* its end */
        struct engine_call kill;
        struct timer retry; /* of the kill */
        unsigned retry_ms;
        const json_t *listed; /* what the engine's list says of it, while reconciling */
        /* Tells the caller of lives_start(); NULL: told, or the caller is gone.  `l` is NULL when the start failed. */
        void (*on_started)(struct life *l, const struct err *err, void *arg);
        void *arg;
        uint64_t cpu_us, cpu_at_us; /* last sample of its CPU time, and when (monotonic) */
};

#define LIVES_STOPPED_MAX 1024u

struct lives_options {
        struct loop *loop;
        const struct conf *conf;
        struct store *store;
        struct keys *keys;
        const struct tokens *tokens;
        struct engine_link *engine;
        struct durable *durable;
        struct refs *refs;
        struct ended_files *ended;
        void (*on_changed)(const struct sandbox *s, void *arg); /* how traffic is to see the sandbox has changed */
        void (*on_gone)(const char *id, void *arg);             /* no traffic can reach that sandbox any more */
        void (*on_many_layers)(void *arg); /* a sandbox or a copy has more than LAYERS_SEALED_MAX sealed layers */
        void *arg;
        int64_t (*now_ns)(void);  /* real time */
        int64_t (*boot_ns)(void); /* a clock that nobody sets */
};

struct lives {
        struct lives_options o;
        struct map by_id;      /* -> struct life, owned */
        struct list all;       /* the same, in no order */
        size_t count, running; /* `running`: in that very state */
        size_t busy;           /* sandboxes that a job process of the engine before still works on */
        struct deadlines deadlines;
        struct timer timer;      /* for the first of them */
        int64_t boot_real_ns;    /* real time at the beginning of the boot clock, at the last look */
        struct timer tidy;       /* the store, when there is nothing to do */
        bool has_unwritten;      /* the row of a life may be unwritten */
        struct list unremoved;   /* rows of ended sandboxes that could not be removed yet (life_row.c) */
        struct engine_call list; /* asked again to find what is left over */
        struct engine_call lose; /* checkpoints and layers that are not in the store are moved aside */
        struct journal journal;
        struct list strangers; /* struct stranger, owned: strangers.c */
        struct {               /* sandboxes that ran when the machine stopped: the last ones, for clients that ask */
                const struct team *team;
                char id[SANDBOX_ID_MAX];
        } stopped[LIVES_STOPPED_MAX];
        size_t stopped_count; /* since control started */
};

/* Real time, after a look whether the clock was set: every time that is compared with an end, or becomes one, comes from
 * here. */
int64_t lives_real_ns(struct lives *ls);
int64_t lives_now(struct lives *ls); /* the same, as precise as clients see it, so that filters agree */
int lives_init(struct lives *ls, const struct lives_options *o, struct err *err); /* reads the rows of the store */
void lives_done(struct lives *ls);                                                /* sandboxes go on without control */

struct life *lives_find(const struct lives *ls, const char *id);                          /* any state; or NULL */
struct life *lives_find_of(const struct lives *ls, const char *id, const struct team *t); /* and not STARTING */

/* May the team start or resume one more?  ERR_LIMIT: as many run as may. */
int lives_check_limit(const struct lives *ls, const struct team *t, struct err *err);

/* Is the sandbox gone because it was running when the machine stopped?  As far as that is remembered. */
bool lives_has_stopped(const struct lives *ls, const char *id, const struct team *t);

/* ---- starting: life_start.c ---- */

/* Start a life: s, with all its parts, is moved from.  on_started is called once, later, unless the start is abandoned.
 * ERR_INVALID: the environment for envd is too large.  ERR_INTERNAL and others from the store: nothing was begun. */
int lives_start(struct lives *ls, struct sandbox *s,
                void (*on_started)(struct life *l, const struct err *err, void *arg), void *arg, struct err *err);
/* A sandbox that was moved aside (lives_lose) has its files back: it gets its row, PAUSED, and its life.  s is moved
 * from.  Negative: there is neither. */
int lives_take_back(struct lives *ls, struct sandbox *s, struct err *err);
void life_found_again(struct life *l); /* there was a row, and only its files were missing */
/* The engine has it and no row knows it: it is moved aside. */
void lives_lose(struct lives *ls, const char *id, const char *why);
/* No client will learn this id: end the sandbox, at once or when it has started. */
void lives_abandon(struct lives *ls, const char *id);

/* ---- ending: life_end.c ---- */

/* End the sandbox.  w (may be NULL) is told, also when the sandbox is being ended already. */
void life_kill(struct life *l, const char *why, struct life_waiter *w);
/* Move the sandbox's end; an end in the past ends it now. */
int life_set_end(struct life *l, int64_t end_ns, struct err *err);

/* ---- pausing and resuming: life_pause.c ---- */

/* l is not GONE: lives_find() does not find those. */
static inline void life_wait(struct life *l, struct life_waiter *w)
{
        assert(l->sandbox.state != SANDBOX_GONE);
        list_push_back(&l->waiters, &w->node);
}

/* RUNNING to PAUSED, by way of PAUSING.  Negative: nothing was begun. */
int life_pause(struct life *l, bool with_memory, struct err *err);

struct life_resume {
        bool with_memory; /* ignored when there is none */
        uint32_t timeout_s;
        enum choice auto_pause; /* changed, or CHOICE_UNSET */
};
/* PAUSED to RUNNING, by way of RESUMING.  Negative: nothing was begun. */
int life_resume(struct life *l, const struct life_resume *how, struct err *err);

/* ---- copying: life_image.c ---- */

struct image {                              /* what other sandboxes can be started from */
        char checkpoint[CHECKPOINT_ID_MAX]; /* "": files only */
        json_t *layers;                     /* borrowed */
        char image_of[SANDBOX_ID_MAX];
        bool image_secured;
};

struct image_taker { /* embedded in what wants a copy; zeroed: wants none */
        struct life *life;
        /* Called once.  The image is borrowed for the call; a taker that needs it longer holds its names (refs_hold). */
        void (*on)(struct image_taker *t, const struct image *image, const struct err *err);
};

/* Take a copy of a sandbox that is RUNNING (and goes on afterwards) or PAUSED.  ERR_UNAVAILABLE: not now, its layers are too
 * many and are being merged.  Negative: nothing was begun. */
int life_take_image(struct life *l, struct image_taker *t, struct err *err);
void image_taker_cancel(struct image_taker *t); /* fine when it waits for nothing */

/* ---- a step of a build is done: life_commit.c ---- */

struct life_commit {
        bool with_memory;
        const char *below; /* only this directory of its files is wanted, as the lowest layer; NULL: all of them */
};
/* The files of a RUNNING sandbox of a build become a layer, and it is ended, whatever happens.  Not yet on disk when the taker
 * has the image.  Negative: nothing was begun. */
int life_commit(struct life *l, const struct life_commit *how, struct image_taker *t, struct err *err);

/* ---- going back: life_rollback.c ---- */

/* A sandbox that is RUNNING or PAUSED is so afterwards, with memory and files of the snapshot.  Negative: nothing was begun. */
int life_roll_back(struct life *l, const struct snapshot *sn, struct err *err);

/* ---- for the engine link: reconcile.c ---- */

void lives_reconcile(struct lives *ls, const json_t *answer); /* to "list" */
void lives_rechecked(struct lives *ls, const json_t *fact);
void lives_exited(struct lives *ls, const char *id);
