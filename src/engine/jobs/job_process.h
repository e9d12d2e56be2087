/* job_process.h - a process for one job of the job queue: pauses or wakes one sandbox, from beginning to end, and writes down how it
 * ended, whether or not anybody is left to tell.
 *
 * A job is a JSON object with "op"; ids in it were checked by the engine.  With "note" (job_note.h) it is about the sandbox
 * "id", whose directory ("make": a new one) is locked and holds the note for as long as it takes.
 *   pause   {id, checkpoint?, durable, origin?, slot, pid, uid_base, address, envd}   -> {bytes, frozen_us}
 *           Processes are frozen; afterwards, with paused.json in place, they are nobody's any more; or all is as before.
 *   copy    {id, checkpoint, layer, origin?, slot, pid, uid_base, address, envd}       -> {bytes, layer_bytes, frozen_us}
 *           Processes are frozen for a part of it, and go on in any case.  What is half-written is in
 *           sandboxes/<id>/JOB_COPY_DIR and in a checkpoint without a manifest.
 *   wake    {plan, slot, uid_base, fresh}            from a checkpoint        -> {silent?}, fds: pidfd, netns
 *           silent, an error: it runs, on the files it had kept, but its envd does not answer.
 *   seal    {id, layer, origin?}                                                       -> {bytes}
 *   flush   {checkpoint?, layer?}                                             -> {}
 *   measure {id}                                                              -> {disk_bytes}
 *   names   {}                                       -> {}, fd: {checkpoints, layers}, ids of what is complete
 *   lost    {after?}  what lies in lost/, a page of it (lost_note.h)         -> {lost, more}
 *   lost    {id}      one of them                    -> {}, fd: {kind, origin, checkpoint?, sealed?}
 *   restore {id?, checkpoints, layers}               back from lost/ to where they were, all or nothing  -> {}
 *   settle  {id, slot?, pid?}  wait until no other job process is at it, nor what it started
 * The answer is {"ok":true, ...} or {"error":{"kind","message"}}. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "engine/host/cgroups.h"
#include "engine/criu/criu.h"
#include "engine/host/instance.h"
#include "engine/records/record.h"
#include "sys/proc.h"

struct err;

struct job_conf { /* all borrowed from the engine */
        struct instance *instance;
        const struct cgroups *cgroups;
        struct plan_limits default_limits;
        const char *data_path;
        int data_dir, sandboxes_dir, checkpoints_dir, sealed_dir, trash_dir, layers_dir, envd_dir, proc_dir;
        int envd_binary;
        int used_checkpoints;       /* used_checkpoints.h */
        char envd[RECORD_HASH_MAX]; /* its hash */
        char boot_id[SYS_BOOT_ID_MAX];
        int dev; /* devices.h with our own envd; made by the job queue itself */
        bool has_link;
        struct criu_tool tool;
};

#define JOB_COPY_DIR "copy" /* sandboxes/<id>/copy: of its upper directory, until it is complete and becomes a layer */

#define JOB_ANSWER_FDS_MAX 2
#define JOB_BEGINS 'b' /* a packet of one byte, the first: somebody has the job */
#define JOB_WAITS 'w'  /* a packet of one byte: nothing but a sandbox's own doing is waited for any more */

struct job_result {
        int sock;     /* borrowed: where the answer goes */
        json_t *body; /* new reference; NULL: nothing to say */
        int fds[JOB_ANSWER_FDS_MAX];
        size_t nfds;
};

typedef int job_op(const struct job_conf *c, const json_t *job, struct job_result *ret, struct err *err);
job_op job_pause, job_copy, job_restore, job_seal, job_make_durable, job_flush, job_measure, job_names, job_recheck,
        job_lost, job_lost_restore;

/* What may be more than fits into an answer (body: used up; NULL: there was no memory for it), as the fd of it. */
int job_answer_large(struct job_result *ret, json_t *body, struct err *err);

/* For tests: where <data>/stall/<point> is a pipe, the job process waits there until somebody has opened it for writing and
 * closed it again. */
void job_stall_point(const struct job_conf *c, const char *point);

void job_waits(const struct job_result *ret); /* say JOB_WAITS */

/* The process of the job queue: serve jobs until the engine is gone. */
_Noreturn void job_process_serve(struct job_conf *c, int sock);
unsigned job_conf_fds(const struct job_conf *c, int *out); /* what it needs open; at most JOB_KEEP_MAX */
#define JOB_KEEP_MAX (CGROUPS_FDS_MAX + 10)
