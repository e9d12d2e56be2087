/* job_queue.h - what takes long and must be finished: pausing and waking sandboxes, in processes of their own.
 *
 * The job queue is a helper of the engine (helper.h) that forks a job process for each job.  Job processes outlive both: an engine that is
 * killed does not interrupt them, they write down how it ended (job_process.h), and the next engine goes by that.  A job
 * that is about one sandbox begins with a lock on the sandbox's directory and job.json in it, which names the slot it uses:
 * the job process's, since a disk may stall; where the engine is gone by then, nobody has begun.
 *
 * The job process of a job has a socket pair of its own with the engine: JOB_BEGINS comes back and then the answer, or the end
 * of file when the job process died; without JOB_BEGINS nobody had begun, and the job is given to another, as is one that may be
 * repeated.  Before the answer a JOB_WAITS may come: from then on the job does not count as work. */
#pragma once
#include <stdbool.h>

#include "base/list.h"
#include "engine/host/helper.h"
#include "engine/jobs/job_process.h"
#include "io/loop.h"

struct err;

struct job_queue;

struct queued_job { /* embedded in its owner, which sets the first members */
        enum job_kind kind;
        json_t *message;    /* owned: the job, encoded (job.h) */
        bool only_waits;    /* does not count as work */
        bool is_brief;      /* a moment's work, may be asked for at any time: counts among the brief ones only */
        bool is_repeatable; /* done twice is as good as done once: when its job process dies, another one does it again */
        bool is_long; /* may take as long as a sandbox makes it take: never all job processes are at such jobs, so that sandboxes can be resumed */
        /* How it ended.  answer NULL: the job process died; else the callee may take fds and the report out of it.  The job is over
         * by then. */
        void (*on_done)(struct queued_job *j, struct job_answer *answer);
        /* the job queue's own */
        struct job_queue *job_queue;
        bool is_begun;
        unsigned tries;
        struct list node;
        struct io io;
};

struct job_queue {
        struct loop *loop;
        struct job_conf conf;
        struct helper helper;
        struct list queued, running; /* struct queued_job */
        unsigned busy, busy_max;
        unsigned busy_long, busy_long_max; /* of these */
        unsigned busy_brief;               /* beside them, as many at most */
        struct timer retry;
        unsigned failures;
        bool is_stopped;
};

int job_queue_start(struct job_queue *v, struct loop *l, const struct job_conf *c, struct err *err);
void job_queue_stop(struct job_queue *v); /* the jobs' owners hear nothing more; running jobs are finished without us */
void job_queue_run(struct job_queue *v, struct queued_job *j);
/* Out of the queue, if it did not begin yet: true, and nobody is told.  Else it goes on. */
bool job_queue_cancel(struct queued_job *j);
