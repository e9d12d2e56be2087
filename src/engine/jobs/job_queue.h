/* job_queue.h - jobs (job.h) that take long and must be finished, such as pausing and restoring sandboxes, in processes of
 * their own.
 *
 * The job queue is a helper of the engine (helper.h) that forks a job process for each job.  Job processes outlive both: an
 * engine that is killed does not interrupt them.  They write down how the job ended (job_process.h), and the next engine reads
 * that.  A job that changes a sandbox begins with a lock on the sandbox's directory and with job.json in it, which names the
 * slot that is used.  The job process writes job.json, since a disk may stall; if the engine is gone by then, the job is not
 * begun.
 *
 * Each job has a socket pair between its job process and the engine.  The engine receives JOB_BEGINS and then the answer, or
 * the end of file when the job process died.  Without JOB_BEGINS the job was not begun, and another job process gets it; so it
 * is with a job that may be repeated.  Before the answer a JOB_WAITS may come: from then on the job does not count as work. */
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
        bool is_long; /* a sandbox decides how long it takes: some job processes are left for others, such as restores */
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
void job_queue_stop(
        struct job_queue *v); /* on_done is not called any more; running jobs are finished without the engine */
void job_queue_run(struct job_queue *v, struct queued_job *j);
/* Out of the queue, if it did not begin yet: true, and on_done is not called.  Else it goes on. */
bool job_queue_cancel(struct queued_job *j);
