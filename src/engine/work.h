/* work.h - a job of the vault about one guest: its lock, its note on disk, who asked for it, and how it ended. */
#pragma once
#include "engine/adopt.h"
#include "engine/guest.h"
#include "engine/vault.h"
#include "engine/work_note.h"

struct work {
        struct vault_job job;
        struct guest *guest;
        struct ask *ask; /* owned until answered */
        uint64_t began_us;
        /* err: ERR_NONE or why it failed.  answer NULL: its worker died.  fds are the callee's.  w is no longer the guest's
         * work, and is freed after this. */
        void (*on_done)(struct work *w, const json_t *answer, const struct err *err, int *fds, size_t nfds);
        struct plan_create plan; /* owned; of a sandbox that wakes */
        struct still still;      /* what is to be at rest */
        bool is_durable;
        enum adopt_wish wish; /* of work_settle() */
        struct task free_task;
};

/* New, with `what` (used up, also on failure) for the worker; begun by work_start(). */
struct work *work_create(struct guest *s, json_t *what, struct ask *a);
/* Off, with what its worker notes first.  On failure the work is freed, its ask is still the caller's. */
int work_start(struct work *w, const struct work_note *note, struct err *err);
void work_discard(struct work *w); /* one that was not started; its ask is still the caller's */
/* If the worker did not begin yet: true, and who asked is told.  Only for those about to be ended. */
bool work_give_up(struct guest *s);
/* Why a worker could not do it, for who asked: to him "not found" is that the sandbox is gone, not what a worker missed. */
void work_fail(struct work *w, const struct err *err);
bool work_is_making(const struct engine *e, const char *name); /* a checkpoint or a layer: some worker may be at it */
/* BUSY: when no worker is at it any more, see what there is.  a (may be NULL) is answered then: all is well if the sandbox
 * is what its worker, which died, was to make of it. */
void work_settle(struct guest *s, struct ask *a, enum adopt_wish wish);
