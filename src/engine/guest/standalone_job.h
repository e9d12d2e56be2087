/* standalone_job.h - a job of the job queue that changes no sandbox: the caller gets what its job process says. */
#pragma once
#include <jansson.h>

#include "engine/guest/guest.h"
#include "engine/jobs/job_answer.h"

struct standalone_job_how {
        struct job job; /* everything in it is borrowed */
        json_t *base; /* what the answer begins with; the report of the job process joins it; used up; NULL: nothing */
        bool is_long; /* may take as long as a disk likes, and has its turn; others wait only for each other */
        unsigned
                patience_ms; /* after that it is answered with what there is without a job process; 0: as long as it takes */
        /* Add what is to be added at the last moment.  said: the job process's answer, NULL when it is late.  Negative: the
         * answer is *err.  NULL: there is nothing to be added. */
        int (*complete)(struct engine *e, json_t *base, const struct job_answer *said, struct err *err);
        /* All is done, and the caller is gone.  NULL: nothing has to be undone then. */
        void (*orphaned)(struct engine *e, const json_t *base);
};

void standalone_job_run(struct engine *e, const struct standalone_job_how *how, struct ask *a);
