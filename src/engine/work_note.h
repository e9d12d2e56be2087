/* work_note.h - sandboxes/<id>/work.json: there while a worker is at a sandbox; what the next engine must leave alone.
 *
 * Whether a worker is really at it says the lock on the directory (vault.h). */
#pragma once
#include "model/plan.h"
#include "sys/proc.h"

struct err;

struct work_note {
        unsigned slot;                      /* whose cgroups and link are in use; 0: none */
        char checkpoint[CHECKPOINT_ID_MAX]; /* being written or read; "": none */
        char layer[SEALED_ID_MAX];          /* being made beside it; "": none */
        struct plan_net net;                /* owned: the rules that hold for the slot */
        char boot_id[SYS_BOOT_ID_MAX];      /* in which the worker lived; in another one there is none */
};

json_t *work_note_encode(const struct work_note *n); /* new reference; NULL out of memory */
int work_note_put(int dir /* sandboxes/<id> */, const json_t *note, struct err *err); /* what was encoded */
int work_note_write(int dir, const struct work_note *n, struct err *err);
int work_note_read(int dir, struct work_note *ret,
                   struct err *err); /* *ret is the caller's: plan_net_done(&ret->net) */
int work_note_remove(int dir);       /* fine when there is none */
/* Open sandboxes/<id> and lock it.  -EWOULDBLOCK: a worker is at it. */
int work_lock(int sandboxes_dir, const char *id);
int work_lock_wait(int sandboxes_dir, const char *id); /* the same, and wait for it */
