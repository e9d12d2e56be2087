/* jobs.h - long requests of the puller, each in a thread of its own; a few at the same time, the others wait.
 *
 * Runs in: the loop's thread.  A thread gets its inputs, and leaves one result; it shares only the directory of blobs, which has
 * a lock, and two counters. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "io/loop.h"
#include "puller/pull.h"

struct job_list;

struct puller_job {
        struct list node;      /* of job_list: running or waiting */
        struct job_list *jobs; /* borrowed */
        int (*run)(struct pull *p, json_t **ret, struct err *err);
        struct pull pull;
        char *asked;                    /* owned: pull.asked */
        uint64_t told_done, told_total; /* of the last fact */
        /* In the loop; the job is freed afterwards.  Not called when it was cancelled. */
        void (*on_done)(struct puller_job *job, json_t *answer, const struct err *err);
        void (*on_progress)(struct puller_job *job, uint64_t done, uint64_t total);
        void *arg;
        int64_t req;
        /* jobs.c's own */
        unsigned long thread;
        bool is_running;
        atomic_bool is_over;
        json_t *answer;
        struct err err;
};

struct job_list {
        struct loop *loop; /* borrowed, as the next three */
        const struct conf *conf;
        const struct puller_limits *limits;
        struct blobs *blobs;
        struct list running, waiting;
        size_t count; /* of both */
        size_t run_count;
        struct io wake; /* eventfd: a thread has ended */
        struct timer tick;
        void (*on_idle)(struct job_list *l); /* the last job is gone */
};

int jobs_start(struct job_list *l); /* the borrowed ones and on_idle are set */
void jobs_stop(struct job_list *l); /* cancels all, and waits for their threads */

/* A job with its inputs to be filled in: run, pull.ref, pull.auth, asked, callbacks.  NULL: as many as may wait are waiting, or
 * out of memory. */
struct puller_job *job_create(struct job_list *l, struct err *err);
void job_begin(struct puller_job *job);              /* now, or when its turn comes */
struct puller_job *job_free(struct puller_job *job); /* one that was not begun */
void job_cancel(struct puller_job *job);             /* its callbacks are not called any more; it ends soon */
