/* record.h - sandboxes/<id>/running.json: what a later engine needs to adopt a living sandbox.  No secrets in it.
 *
 * The process is the first one of the sandbox (or, for another kind of engine, the one that runs its machine). */
#pragma once
#include <stdint.h>
#include <sys/types.h>

#include "engine/records/kind_facts.h"
#include "model/plan.h"
#include "sys/proc.h"

struct err;

#define RECORD_HASH_MAX 65

struct record {
        char id[SANDBOX_ID_MAX];
        struct kind_facts facts;
        pid_t pid;
        uint64_t start_time; /* with pid and boot_id: one process for good */
        char boot_id[SYS_BOOT_ID_MAX];
        int64_t started_ns;
        struct plan_net net;       /* owned */
        struct plan_limits limits; /* of a restored one: CRIU needed more, and they may not have been lowered again */
        bool is_stranger; /* a copy whose envd was not yet told who it is now: it has another's name and token */
        char envd[RECORD_HASH_MAX]; /* sha256 of the envd it runs, hex; "": not noted */
};

char *record_encode(const struct record *r); /* as text, the caller's; NULL out of memory */
int record_put(int dir /* sandboxes/<id> */, const char *text, size_t len, struct err *err); /* what was encoded */
int record_write(int dir /* the same */, const struct record *r, struct err *err);
int record_remove(int dir); /* fine when there is none */
/* *ret is the caller's: record_done().  ERR_NOT_FOUND: there is none, or an empty one. */
int record_read(int dir, struct record *ret, struct err *err);
void record_done(struct record *r);
