/* workers.h - the sandboxes of a runner, each made by the first thread that needs it, while others wait for it.
 *
 *      EMPTY ──worker_take()──> MAKING ──made──> READY <──pause, resume──> PAUSED
 *        ▲                        │
 *        └────────failed──────────┘ */
#pragma once
#include <pthread.h>

#include "client/modes/place.h"

#define WORKER_NAME_MAX 64u

enum worker_state { WORKER_EMPTY, WORKER_MAKING, WORKER_READY, WORKER_PAUSED };

struct worker {
        char name[WORKER_NAME_MAX + 1]; /* "": the one sandbox of mode e2b */
        enum worker_state state;
        unsigned users;      /* threads in worker_take(): without one, a worker that is EMPTY is removed */
        int settled;         /* owned: an eventfd that is readable while the state is not MAKING */
        struct place *place; /* owned; NULL as long as the state is EMPTY or MAKING */
};

struct workers {
        pthread_mutex_t lock;  /* of all that follows */
        struct worker **items; /* owned; those with a sandbox stay to the end */
        size_t count, max;
        struct sg_client *client; /* NULL: not opened yet */
        bool owns_client;

        /* Of new sandboxes; owned. */
        char *template_name, *workspace;
        uint32_t timeout_s;
};

int workers_init(struct workers *w, const struct sg_runner_options *options, struct sg_error *err);
void workers_done(struct workers *w); /* sandboxes stay as they are */

/* SG_INVALID: no such name can be. */
int worker_check_name(const char *name, struct sg_error *err);
/* Its place, made if needed.  sandbox_id: no new sandbox, but this one.  SG_CONFLICT: it is paused; SG_LIMIT: too many. */
int worker_take(struct workers *w, const char *name, const char *sandbox_id, struct limit *limit, struct place **ret,
                struct sg_error *err);
struct place *worker_find(struct workers *w, const char *name); /* NULL: there is none (yet) */

/* Each sandbox in turn, also after a failure; the first failure is told. */
int workers_pause(struct workers *w, const struct sg_call *call, struct sg_error *err);
int workers_resume(struct workers *w, const struct sg_call *call, struct sg_error *err);
int workers_kill(struct workers *w, const struct sg_call *call, struct sg_error *err);
