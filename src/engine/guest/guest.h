/* guest.h - one sandbox in the engine, from its plan to its end.
 *
 *     WAITING --resources--> STARTING --envd is ready--> RUNNING --kill or death--> ENDING --process dead, files moved--> freed
 *
 * A failure while a guest is made leads to ENDING, or back to PAUSED where the guest comes from a pause (enum guest_source).
 *
 *     RUNNING --> PAUSING --written--> STOPPING --processes dead--> PAUSED --> RESUMING --> RUNNING
 *        ^           |  '--written, there is room--> WARM ------------(thaw)------^
 *        '---failed--'
 *
 *     RUNNING --> COPYING --> RUNNING    its processes stand still for a part of it, and can be dialled all the time
 *
 * PAUSED may also lead to WAITING: a start on the kept files, without the memory.  WARM leads to STOPPING when its memory is
 * wanted.
 *
 * STANDBY is a guest that was restored ahead and belongs to nobody yet (standby.h): RESUMING leads to it, and it leads to RESUMING
 * again, when it is handed over.
 *
 * PAUSING, COPYING and RESUMING are the work of a job process (jobs/job_queue.h).  BUSY is a guest with a job process that this
 * engine did not start, or that died: when the job process is gone, the disk says what the guest is (adopt.h).  KILLED is a
 * guest that is to be ended as soon as its job process is done.
 *
 * ENDED is a guest whose processes ended by themselves, or with the machine: its directory stays until control says that the
 * row is gone, on disk (`drop`), since a power cut could bring back a row that says "paused".
 *
 * What differs between kinds of engine is behind guest->ops (engine_ops.h). */
#pragma once
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "engine/guest/ask.h"
#include "engine/guest/engine.h"
#include "engine/guest/engine_ops.h"
#include "engine/records/paused.h"
#include "engine/records/record.h"

struct err;
struct guest_job;
struct lost_note;
struct standby;

enum guest_state {
        GUEST_WAITING,
        GUEST_STARTING,
        GUEST_RUNNING,
        GUEST_PAUSING,
        GUEST_COPYING,
        GUEST_STOPPING,
        GUEST_PAUSED, /* no process and nothing of the host: only this struct, and files */
        GUEST_WARM,
        GUEST_STANDBY,
        GUEST_RESUMING,
        GUEST_BUSY,
        GUEST_KILLED,
        GUEST_ENDED, /* only this struct, and files */
        GUEST_ENDING,
};

enum guest_source { /* of a guest that is being made: a failure leads back there */
                    GUEST_IS_NEW,
                    GUEST_WAS_PAUSED,
};

struct guest {
        struct engine *engine;
        const struct engine_ops *ops;
        enum guest_state state;
        enum guest_source source;   /* WAITING, STARTING, RESUMING */
        struct record record;       /* facts are empty: nothing of the host is in use yet */
        struct paused paused;       /* what is kept: PAUSED, WARM, STOPPING; and until it runs again */
        struct io death;            /* pidfd: readable once every process of the guest is gone */
        bool was_rebooted;          /* ENDED: it was running when the machine stopped */
        bool is_news;               /* STOPPING: that it is paused, or how, is told as a fact, after the answers */
        bool are_files_worthless;   /* ENDING: it was not paused, so nobody waits for its files to be moved */
        struct disk_request *files; /* STOPPING, ENDING: its processes are gone, and that is being written down */
        struct guest_job *job;      /* owned; the job that a job process does for it */
        struct ask *thawing;        /* owned; RESUMING, frozen until that is on disk: the request for it */
        uint64_t thaw_began_us;     /* and when */
        uint64_t thaw_turn;         /* of its mark: used_checkpoints.h */
        struct err thaw_failure;    /* why it cannot be thawed and is paused again; ERR_NONE: it is being resumed */
        struct list waiting;        /* struct end_wait: requests that are answered at its end */
        struct list deferred;       /* struct deferred: requests that wait until it is paused */
        uint64_t disk_bytes;        /* its files, when they were counted the last time */
        struct list warm;           /* in the engine's list, least recently used first */
        uint64_t warm_bytes;        /* then: what it was counted with */
        /* Owned; at its end its directory is moved aside with this note.  NULL: it is removed. */
        struct lost_note *lost;
        struct standby *standby; /* owned; standby.h; NULL: it is none */
        struct task free_task;
};

struct guest *guest_find(const struct engine *e, const char *id);                   /* in any state; NULL */
const struct engine_ops *guest_kind(const struct engine *e, enum engine_kind kind); /* NULL: this server has none */
/* New, WAITING, in the map.  ERR_CONFLICT: the id is in use. */
int guest_add(struct engine *e, const char *id, const struct engine_ops *ops, struct guest **ret, struct err *err);
void guest_go(struct guest *g, enum guest_state next);
int guest_watch(struct guest *g, int pidfd);       /* takes it; on failure the caller closes g->death.fd */
bool guest_is_dead(const struct guest *g);         /* its processes are gone, and its state does not show that yet */
bool guest_has_job_process(const struct guest *g); /* PAUSING, COPYING, RESUMING, BUSY, KILLED */

/* Carry out the plan (taken) and answer a. */
void guest_create(struct engine *e, struct plan_create *plan, struct ask *a);
/* A start or a resume has come to its end: RUNNING; a is answered.  silent: why envd did not answer; NULL: it did. */
void guest_started(struct guest *g, struct ask *a, uint64_t began_us, const char *from, const struct err *silent);
/* Making it failed: undo, then answer the request for it with err. */
void guest_fail(struct guest *g, const struct err *err);
/* End it; a is answered once its processes are gone; of a paused one, once its files are. */
void guest_kill(struct guest *g, struct ask *a);
void guest_stop(struct guest *g);   /* it is paused on disk: end its processes, if there are any */
void guest_end(struct guest *g);    /* without an answer */
void guest_exited(struct guest *g); /* its processes are gone without being asked to: told */
void guest_tell(const struct guest *g, const char *event); /* a fact: exited, rechecked */
void guest_answer_at_end(struct guest *g, struct ask *a, const struct err *err);
