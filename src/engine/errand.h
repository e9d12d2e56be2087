/* errand.h - a job of the vault that changes no sandbox: whoever asked gets what its worker says. */
#pragma once
#include <jansson.h>

#include "engine/guest.h"

struct errand_how {
        json_t *what; /* the job; used up, also on failure */
        json_t *base; /* what the answer begins with; the worker's joins it; used up; NULL: nothing */
        bool is_long; /* may take as long as a disk likes, and has its turn; others wait only for each other */
        unsigned
                patience_ms; /* after that it is answered with what there is without a worker; 0: as long as it takes */
        /* Add what is to be added at the last moment.  said: the worker's answer, NULL when it is late; fds are closed after
         * this.  Negative: the answer is *err.  NULL: there is nothing to be added. */
        int (*complete)(struct engine *e, json_t *base, const json_t *said, const int *fds, size_t nfds,
                        struct err *err);
};

/* For `complete`: what a worker answered with an fd (worker_answer_large) joins `to`. */
void errand_join(int fd, json_t *to);

void errand_run(struct engine *e, const struct errand_how *how, struct ask *a);
