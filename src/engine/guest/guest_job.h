/* guest_job.h - a job of the job queue about one guest: its lock, its note on disk, the request for it, and how it ended. */
#pragma once
#include "engine/guest/adopt.h"
#include "engine/guest/guest.h"
#include "engine/jobs/job_queue.h"
#include "engine/records/job_note.h"

struct guest_job {
        struct queued_job queued;
        struct guest *guest;
        struct ask *ask; /* owned until answered */
        uint64_t began_us;
        /* err: ERR_NONE or why it failed.  answer NULL: its job process died; else fds may be taken out of it.  w is no longer the
         * guest's job, and is freed after this. */
        void (*on_done)(struct guest_job *w, struct job_answer *answer, const struct err *err);
        struct paused paused; /* what is to be paused */
        bool is_durable;
        enum adopt_wish wish; /* of guest_job_recheck() */
        struct task free_task;
};

/* New; begun by guest_job_start().  Sandbox and boot are filled into the job here, the rest is the caller's to fill in.  NULL:
 * out of memory, and the ask is still the caller's. */
struct guest_job *guest_job_create(struct guest *s, const struct job *job, struct ask *a);
void guest_job_start(struct guest_job *w);
void guest_job_discard(struct guest_job *w); /* one that was not started; its ask is still the caller's */
/* If the job process did not begin yet: true, and the request is answered.  Only for guests that are about to be ended. */
bool guest_job_give_up(struct guest *s);
/* Answer the request: why the job process could not do it.  ERR_GONE where the sandbox itself is dead, whatever else went wrong. */
void guest_job_fail(struct guest_job *w, const struct err *err);
bool guest_job_is_making(const struct engine *e,
                         const char *name); /* a checkpoint or a layer: some job process may be at it */
/* BUSY from now on (unless KILLED): when no job process is at it any more, see what there is.  a (may be NULL) is answered then: all is well if the sandbox
 * is what its job process, which died, was to make of it. */
void guest_job_recheck(struct guest *s, struct ask *a, enum adopt_wish wish);
