/* adopt.h - sandboxes that outlived the engine that made them. */
#pragma once
#include "engine/guest/engine.h"
#include "engine/records/record.h"

struct ask;
struct err;
struct guest;

/* Which boot of the machine this is.  A test that cuts the power writes another id to <data>/stall/boot_id. */
int adopt_boot_id(int data_dir, char out[SYS_BOOT_ID_MAX]);

/* Read a sandbox's record and find its process.  0: it lives, *ret_pidfd is the caller's.  -ENOENT: it is dead, or
 * there never was one; then *ret is empty. */
int adopt_find(int dir, int proc_dir, const char *boot_id, struct record *ret, int *ret_pidfd, struct err *err);

/* Take over every sandbox below sandboxes/ that lives or is paused; what is left of those that died goes to the trash.  One
 * that cannot be taken over for another reason is ended and moved aside (lost.h).  Frozen ones whose image is complete are
 * ended: they are paused on disk. */
int adopt_all(struct engine *e, struct err *err);
/* Begin to wait for those at which a job process still is; after the helpers were started. */
void adopt_busy(struct engine *e);
/* A sandbox that lies in sandboxes/ and is not known yet.  Negative: nothing of it lives or is paused. */
int adopt_one(struct engine *e, const char *id, struct err *err);

enum adopt_wish { ADOPT_NOTHING, ADOPT_RUNNING, ADOPT_PAUSED }; /* what the job process was to make of it */

/* BUSY, and nobody works on it any more: what is it now?  a (NULL: nobody waits) gets its wish, or ERR_INTERRUPTED.  Where it
 * is not what a wished for, or nobody waits, it is told as a fact, after the answer. */
void adopt_recheck(struct guest *s, struct ask *a, enum adopt_wish wish);
