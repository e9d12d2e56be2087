/* limit.h - how one call of the library waits: its time limit, its cancelling, its ticks. */
#pragma once
#include "client/error.h"
#include "io/loop.h"

struct limit {
        const struct sg_call *call; /* borrowed; never NULL */
        uint64_t deadline_ms;       /* monotonic; UINT64_MAX: none */
        uint64_t limit_ms;          /* for the message */
        uint64_t next_tick_ms;      /* UINT64_MAX: none */
};

/* call may be NULL.  usual_ms: the limit of a call that names none.  SG_INVALID: the call's options make no sense. */
int limit_begin(struct limit *l, const struct sg_call *call, uint32_t usual_ms, struct sg_error *err);
/* Run the loop until somebody stops it.  SG_TIMEOUT, SG_CANCELLED: that came first. */
int limit_run(struct limit *l, struct loop *loop, struct sg_error *err);
/* The same, until fd is readable. */
int limit_wait_fd(struct limit *l, int fd, struct sg_error *err);
/* Wait this long.  SG_TIMEOUT: the limit would pass first; it is not waited for. */
int limit_sleep(struct limit *l, uint64_t ms, struct sg_error *err);
/* Was it cancelled before anything was done?  SG_CANCELLED. */
int limit_check(const struct limit *l, struct sg_error *err);
uint32_t limit_left_ms(const struct limit *l); /* at least 1; SG_NO_TIMEOUT: no limit */

int cancel_fd(const struct sg_cancel *cancel); /* -1: none */
