/* job_answer.h - how a job ended (job.h), and the one encoder and the one decoder of such answers.
 *
 * An answer is a short message from the job process to the engine, with fds where there are any. */
#pragma once
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/jobs/job.h"
#include "engine/storage/host_layer.h"

#define JOB_ANSWER_TEXT_MAX 4096u
#define JOB_ANSWER_FDS_MAX 2

struct job_answer {
        struct err err; /* ERR_NONE: it was done; else why not, and nothing of the following is set */

        uint64_t bytes;       /* JOB_PAUSE, JOB_COPY: of the checkpoint; JOB_SEAL: of the layer */
        uint64_t layer_bytes; /* JOB_COPY */
        uint64_t frozen_us;   /* JOB_PAUSE, JOB_COPY: for how long the sandbox stood still */
        uint64_t disk_bytes;  /* JOB_MEASURE */

        /* JOB_RESTORE: ERR_NONE, or why envd does not answer: the sandbox runs, on the files that it had kept. */
        struct err envd_silent;
        int pidfd; /* JOB_RESTORE: the sandbox's first process; owned; -1: it did not arrive */
        int netns; /* JOB_RESTORE, namespace engine: its network namespace; likewise */
        /* JOB_RESTORE of a standby: which files of the host it has (host_layer.h); "": none */
        char host_version[HOST_LAYER_VERSION_MAX];

        /* What the engine passes on to control as it is; owned.  NULL: it did not arrive.
         *   JOB_NAMES          {checkpoints, layers}: ids of what is complete
         *   JOB_USAGE          {sandboxes, checkpoints, layers, bases: {id: bytes}, lost, trash, free, total}
         *   JOB_LOST, a page   {lost: [{id, kind, was, why, lostAt, bytes}], more}
         *   JOB_LOST, a name   {kind, origin, checkpoint?, sealed?} */
        json_t *report;
};

void job_answer_init(struct job_answer *a);
void job_answer_done(struct job_answer *a);

/* Without fds and report.  New reference; NULL: out of memory. */
json_t *job_answer_encode(enum job_kind kind, const struct job_answer *a);
/* ERR_INVALID: it is not an answer to such a job.  On success *ret is the caller's, to be released with job_answer_done();
 * the answer itself may be an error: ret->err. */
int job_answer_decode(enum job_kind kind, const json_t *msg, struct job_answer *ret, struct err *err);

/* In the job process, which may block.  Negative: nobody is there any more, or there was no memory. */
int job_answer_send(int sock, enum job_kind kind, const struct job_answer *a);
/* In the engine: what was sent.  The fds are used up, also on failure. */
int job_answer_read(enum job_kind kind, const char *text, size_t len, int *fds, size_t nfds, struct job_answer *ret,
                    struct err *err);
