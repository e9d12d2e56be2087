/* job.h - a job that the engine gives to a job process (job_process.h), and the one encoder and the one decoder of jobs.
 *
 * The engine fills in a struct job and encodes it; everything in it is borrowed for that call.  The job process decodes it:
 * types, ranges, and ids that become paths are checked there.  What each kind of job answers is in job_answer.h.
 *
 * To add a kind: its name and its codec in job.c, its fields here, the function that carries it out in job_process.c. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/records/job_note.h"

struct err;
struct plan_create;

enum job_kind {
        JOB_PAUSE, /* freeze a sandbox and write down its memory (if wanted) and that it is paused; or all is as before */
        JOB_COPY,      /* the memory and the files of a sandbox, which then goes on in any case */
        JOB_RESTORE,   /* make the processes of a sandbox from a checkpoint; or of a standby, which then stand still */
        JOB_HAND_OVER, /* a standby becomes a sandbox: names, files, and its processes run */
        JOB_SEAL,      /* the files of a paused sandbox become a layer */
        JOB_MAKE_DURABLE, /* a paused sandbox, of which not everything is on disk yet */
        JOB_FLUSH,        /* a checkpoint, a layer, or both, to the disk */
        JOB_MEASURE,      /* how much of the disk a sandbox uses */
        JOB_NAMES,        /* which checkpoints and layers are complete */
        JOB_USAGE,        /* how much of the disk each sandbox, checkpoint and layer uses */
        JOB_RECHECK,      /* wait until no job process is at a sandbox, nor what that job process started */
        JOB_LOST,         /* what lies in lost/ (lost_note.h): a page of it, or one of them in detail */
        JOB_LOST_RESTORE, /* from lost/ to where it was, all or nothing */
        JOB_KINDS,
};

/* What only a sandbox of the namespace engine has. */
struct job_namespace {
        unsigned slot;
        uint32_t uid_base;
        pid_t pid;        /* its first process; 0: it has none yet (JOB_RESTORE) */
        uint32_t address; /* 0: it has loopback only, or (JOB_RESTORE) that of its checkpoint */
        const char *envd; /* hash of the envd that it runs; "": to be found out */
};

struct job_pause {
        const char *checkpoint; /* to be made; NULL: only the files are kept */
        bool is_durable;        /* everything is on disk before it is answered */
        const json_t *origin;   /* origin.h; NULL: none, or as noted before */
        struct job_namespace namespace;
};

struct job_copy { /* a half-written copy is in its storage (writable.h) and in a checkpoint without a manifest */
        const char *checkpoint, *layer; /* to be made */
        const json_t *origin;           /* NULL: none */
        struct job_namespace namespace;
};

struct job_restore {
        struct plan_create *plan; /* names the checkpoint */
        uint64_t turn;            /* of its mark: used_checkpoints.h */
        bool is_recent;           /* recent_checkpoints.h: its images need not be verified */
        bool is_standby;          /* its processes are frozen before they run, and envd is told nothing */
        struct job_namespace namespace;
};

struct job_hand_over {
        struct plan_create *plan; /* of the sandbox; job.id is the name of the standby */
        const char *host_version; /* host_layer.h: what the standby was made with; "": nothing */
        struct job_namespace namespace;
};

struct job_seal {
        const char *layer; /* to be made */
        const char
                *below; /* the name of a directory: only that becomes the layer, and the rest is discarded; NULL: all */
        const json_t *origin; /* NULL: none, or as noted before */
};

struct job_flush {
        const char *checkpoint, *layer; /* NULL: none */
};

struct job_lost {
        const char *name;  /* a sandbox, a checkpoint or a layer, in detail; NULL: a page */
        const char *after; /* the page begins after this name; NULL: the first page */
};

struct job_lost_restore {
        const char *sandbox;                /* NULL: none */
        const json_t *checkpoints, *layers; /* arrays of ids; NULL: none */
};

struct job {
        enum job_kind kind;
        /* Of jobs about one sandbox (job_has_sandbox()): */
        const char *id;
        /* Of those that change it (job_locks_sandbox()), whose directory is locked and holds the note meanwhile: */
        struct job_note note;
        bool makes_directory; /* its directory is new */
        union {               /* of the others there is nothing more to say */
                struct job_pause pause;
                struct job_copy copy;
                struct job_restore restore;
                struct job_hand_over hand_over;
                struct job_seal seal;
                struct job_flush flush;
                struct job_lost lost;
                struct job_lost_restore lost_restore;
        };
        json_t *message; /* owned; of job_decode() only: what the others point into */
};

bool job_has_sandbox(enum job_kind kind);
bool job_locks_sandbox(enum job_kind kind);
const char *job_kind_name(enum job_kind kind);

json_t *job_encode(const struct job *j); /* new reference; NULL: out of memory */
/* message: used up, also on failure; NULL: it could not be read.  ERR_INVALID names the field.  On success *ret is the
 * caller's, to be released with job_done(). */
int job_decode(json_t *message, struct job *ret, struct err *err);
void job_done(struct job *j); /* only of job_decode() */
