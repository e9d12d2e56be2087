/* vault.h - what takes long and must be finished: pausing and waking sandboxes, in processes of their own.
 *
 * The vault is a helper of the engine (helper.h) that forks a worker for each job.  Workers outlive both: an engine that is
 * killed does not interrupt them, they write down how it ended (worker.h), and the next engine goes by that.  A job
 * that is about one sandbox begins with a lock on the sandbox's directory and work.json in it, which names the slot it uses:
 * the worker's, since a disk may stall; where the engine is gone by then, nobody has begun.
 *
 * The worker of a job has a socket pair of its own with the engine: WORKER_BEGINS comes back and then the answer, or the end
 * of file when the worker died; without WORKER_BEGINS nobody had begun, and the job is given to another, as is one that may be
 * repeated.  Before the answer a WORKER_WAITS may come: from then on the job does not count as work. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "base/list.h"
#include "engine/helper.h"
#include "engine/worker.h"
#include "io/loop.h"

struct err;

struct vault;

struct vault_job {          /* embedded in its owner, who sets the first members */
        json_t *what;       /* owned: {"op":...}, see worker.h */
        bool only_waits;    /* does not count as work */
        bool is_brief;      /* a moment's work that anybody may ask for at any time: counts among its own kind only */
        bool is_repeatable; /* done twice is as good as done once: when its worker dies, another one does it again */
        bool is_long; /* may take as long as a sandbox makes it take: never all of them at once, so that others wake */
        /* How it ended: `answer` is borrowed; NULL: the worker died.  The fds are the callee's.  The job is over by then. */
        void (*on_done)(struct vault_job *j, const json_t *answer, int *fds, size_t nfds);
        /* the vault's own */
        struct vault *vault;
        bool is_begun;
        unsigned tries;
        struct list node;
        struct io io;
};

struct vault {
        struct loop *loop;
        struct worker_conf conf;
        struct helper helper;
        struct list queued, running; /* struct vault_job */
        unsigned busy, busy_max;
        unsigned busy_long, busy_long_max; /* of these */
        unsigned busy_brief;               /* beside them, as many at most */
        struct timer retry;
        unsigned failures;
        bool is_stopped;
};

int vault_start(struct vault *v, struct loop *l, const struct worker_conf *c, struct err *err);
void vault_stop(struct vault *v); /* the jobs' owners hear nothing more; running jobs are finished without us */
void vault_run(struct vault *v, struct vault_job *j);
/* Out of the queue, if it did not begin yet: true, and nobody is told.  Else it goes on. */
bool vault_cancel(struct vault_job *j);
