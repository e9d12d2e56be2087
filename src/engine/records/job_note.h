/* job_note.h - sandboxes/<id>/job.json: there while a job process is at a sandbox; what the next engine must leave alone.
 *
 * Whether a job process is really at it says the lock on the directory (job_queue.h). */
#pragma once
#include "engine/records/kind_facts.h"
#include "model/plan.h"
#include "sys/proc.h"

struct err;

struct job_note {
        struct kind_facts facts;            /* what is in use */
        char checkpoint[CHECKPOINT_ID_MAX]; /* being written or read; "": none */
        char layer[SEALED_ID_MAX];          /* being made beside it; "": none */
        struct plan_net net;                /* owned: the rules that hold for the slot */
        char boot_id[SYS_BOOT_ID_MAX];      /* in which the job process lived; in another one there is none */
};

json_t *job_note_encode(const struct job_note *n); /* new reference; NULL out of memory */
/* ERR_INVALID names the field.  *ret is the caller's: plan_net_done(&ret->net). */
int job_note_decode(const json_t *obj, struct job_note *ret, struct err *err);
int job_note_write(int dir /* sandboxes/<id> */, const struct job_note *n, struct err *err);
int job_note_read(int dir, struct job_note *ret, struct err *err); /* *ret: as above */
int job_note_remove(int dir);                                      /* fine when there is none */
/* Open sandboxes/<id> and lock it.  -EWOULDBLOCK: a job process is at it. */
int job_lock(int sandboxes_dir, const char *id);
int job_lock_wait(int sandboxes_dir, const char *id); /* the same, and wait for it */
