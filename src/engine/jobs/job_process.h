/* job_process.h - a process for one job (job.h) of the job queue: does it from beginning to end, and writes down how it ended,
 * whether or not anybody is left to tell.  The answer goes to the engine, if that is still there (job_answer.h). */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "engine/host/cgroups.h"
#include "engine/criu/criu.h"
#include "engine/host/devices.h"
#include "engine/host/instance.h"
#include "engine/jobs/job_answer.h"
#include "engine/records/record.h"
#include "engine/storage/writable.h"
#include "sys/proc.h"

struct err;

struct job_conf { /* all borrowed from the engine */
        struct instance *instance;
        const struct cgroups *cgroups;
        struct plan_limits default_limits;
        const char *data_path;
        int data_dir, sandboxes_dir, checkpoints_dir, sealed_dir, trash_dir, layers_dir, envd_dir, proc_dir;
        int host_dir; /* host_layer.h; -1: none */
        int envd_binary;
        int used_checkpoints;       /* used_checkpoints.h */
        int engine_sock;            /* in a job process: to the engine, which waits for the answer */
        char envd[RECORD_HASH_MAX]; /* its hash */
        char boot_id[SYS_BOOT_ID_MAX];
        struct devices devices; /* with our own envd; made by the job queue itself */
        bool has_link;
        bool has_uuid; /* of overlays: mount_ways.h */
        struct criu_tool tool;
};

/* The storage of the sandbox whose directory this is. */
static inline struct writable job_writable(const struct job_conf *c, int dir)
{
        return (struct writable){.dir = dir, .sealed = c->sealed_dir, .trash = c->trash_dir};
}

#define JOB_BEGINS 'b' /* a packet of one byte, the first: a job process has the job */
#define JOB_WAITS 'w'  /* a packet of one byte: from here on the job only waits for what a sandbox does */

/* Carry out a job of its kind.  *ret is empty before (job_answer_init()); negative: the answer is *err. */
typedef int job_op(const struct job_conf *c, const struct job *job, struct job_answer *ret, struct err *err);
job_op job_pause, job_copy, job_restore, job_hand_over, job_seal, job_make_durable, job_flush, job_measure, job_names,
        job_recheck, job_usage, job_lost, job_lost_restore;

/* For tests: where <data>/stall/<point> is a pipe, the job process waits there until a test has opened it for writing and
 * closed it again. */
void job_stall_point(const struct job_conf *c, const char *point);

void job_say_waits(const struct job_conf *c);      /* say JOB_WAITS */
bool job_engine_is_gone(const struct job_conf *c); /* in a job process: the engine that gave the job has ended */

/* The process of the job queue: serve jobs until the engine is gone. */
_Noreturn void job_process_serve(struct job_conf *c, int sock);
unsigned job_conf_fds(const struct job_conf *c, int *out); /* what it needs open; at most JOB_KEEP_MAX */
#define JOB_KEEP_MAX (CGROUPS_FDS_MAX + 11)
