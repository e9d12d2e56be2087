/* standalone_job.h - a job of the job queue that changes no sandbox: whoever asked gets what its job process says. */
#pragma once
#include <jansson.h>

#include "engine/guest/guest.h"

struct standalone_job_how {
        json_t *what; /* the job; used up, also on failure */
        json_t *base; /* what the answer begins with; the job process's joins it; used up; NULL: nothing */
        bool is_long; /* may take as long as a disk likes, and has its turn; others wait only for each other */
        unsigned
                patience_ms; /* after that it is answered with what there is without a job process; 0: as long as it takes */
        /* Add what is to be added at the last moment.  said: the job process's answer, NULL when it is late; fds are closed after
         * this.  Negative: the answer is *err.  NULL: there is nothing to be added. */
        int (*complete)(struct engine *e, json_t *base, const json_t *said, const int *fds, size_t nfds,
                        struct err *err);
};

/* For `complete`: what a job process answered with an fd (job_answer_large) joins `to`. */
void standalone_job_join(int fd, json_t *to);

void standalone_job_run(struct engine *e, const struct standalone_job_how *how, struct ask *a);
