/* guest.h - one sandbox in the engine, from its plan to its end.
 *
 *     WAITING --cell--> STARTING --envd is ready--> RUNNING --kill or death--> ENDING --process dead, files moved--> freed
 *
 * Any step of the making that fails leads to ENDING, or back to RESTING where the sandbox comes from there.  At rest:
 *
 *     RUNNING --> PAUSING --written--> LEAVING --processes dead--> RESTING --> WAKING --> RUNNING
 *        ^           |  '--written, there is room--> WARM ----------(thaw)-------^
 *        '---failed--'
 *
 *     RUNNING --> COPYING --> RUNNING    it stands still for a part of it, and can be dialled all the time
 *
 * RESTING may also lead to WAITING (a cold start on the files it left).  WARM leads to LEAVING when its memory is wanted.
 * A sandbox whose processes ended by themselves, or with the machine, is ENDED: its directory stays until control says that
 * its row is gone, on disk ("drop"), since a power cut could bring a row back that says "paused".
 * PAUSING, COPYING and WAKING are the work of a job process process (job_queue.h); BUSY is a sandbox at which a job process is that we did not
 * start, or that died: when it is over, the disk says what is (adopt.h).
 *
 * Making one is a row of steps (start.c), so is its way to rest and back (pause.c, resume.c); ending one undoes whatever was
 * done, in reverse, whichever way it came about (bury in guest.c). */
#pragma once
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "engine/guest/ask.h"
#include "engine/guest/engine.h"
#include "engine/records/record.h"
#include "engine/records/paused.h"

struct err;
struct lost_note;
struct start;
struct guest_job;

enum guest_state {
        GUEST_WAITING,
        GUEST_STARTING,
        GUEST_RUNNING,
        GUEST_PAUSING,
        GUEST_COPYING,
        GUEST_STOPPING,
        GUEST_PAUSED, /* from here on to RUNNING it has no process, slot, fd: only this struct, and files */
        GUEST_WARM,
        GUEST_RESUMING,
        GUEST_BUSY,
        GUEST_ENDED, /* only this struct, and files */
        GUEST_ENDING,
};

struct guest {
        struct engine *engine;
        enum guest_state state;
        struct record record; /* slot 0: no cell yet */
        struct paused paused; /* what of it is paused: RESTING, WARM, LEAVING; and until it runs again */
        struct io death;      /* pidfd: readable once every process in it is gone */
        int netns;
        bool has_rules;    /* in the packet filter */
        bool is_dead;      /* died while a job process was at it */
        bool is_doomed;    /* to be ended as soon as the job process at it is done */
        bool was_rebooted; /* ENDED: it was running when the machine stopped */
        bool was_paused;   /* being made from what is paused: a failure leads back there */
        bool is_news;      /* LEAVING: that it rests, or how, is to be told as a fact, after the answers */
        bool is_spent;     /* ENDING: it was not paused, so that its files are nothing to anybody once it is dead */
        struct disk_request *files; /* LEAVING, ENDING: its processes are gone, and that is being written down */
        struct start *start;        /* owned; while WAITING or STARTING */
        struct guest_job *job;      /* owned; the job a job process has */
        struct ask *thawing;        /* owned; WAKING, and frozen until it is on disk that it does: who asked for it */
        uint64_t thaw_began_us;     /* and when */
        uint64_t thaw_turn;         /* of its mark: used_checkpoints.h */
        struct err
                thaw_failure; /* then: why it cannot be thawed and is being put to rest again; ERR_NONE: it is being woken */
        struct list waiting;  /* struct end_wait: who is answered at its end */
        struct list deferred; /* struct deferred: requests that wait for it to rest */
        uint64_t disk_bytes;  /* its files, when they were counted the last time */
        struct list warm;     /* in the engine's list, least recently used first */
        uint64_t warm_bytes;  /* then: what it was counted with */
        /* Owned; at its end its directory is moved aside with this note.  NULL: it is removed. */
        struct lost_note *lost;
        struct task free_task;
};

struct guest *guest_find(const struct engine *e, const char *id); /* in any state; NULL */
/* New, WAITING, in the map.  ERR_CONFLICT: the id is in use. */
int guest_add(struct engine *e, const char *id, struct guest **ret, struct err *err);
void guest_go(struct guest *s, enum guest_state next);
int guest_watch(struct guest *s, int pidfd); /* takes it */

/* Carry out the plan (taken) and answer a. */
void guest_create(struct engine *e, struct plan_create *plan, struct ask *a);
/* End it; a is answered once its processes are gone; of one paused, once its files are. */
void guest_kill(struct guest *s, struct ask *a);
/* Making it failed: undo, then answer with err whoever asked for it. */
void guest_fail(struct guest *s, const struct err *err);
int guest_set_net(struct guest *s, struct plan_net *net /* taken on success */, struct err *err);
void guest_stop(struct guest *s);                          /* it is paused: end its processes, if there are any */
void guest_end(struct guest *s);                           /* without an answer */
void guest_exited(struct guest *s);                        /* its processes are gone and nobody asked for that: told */
void guest_tell(const struct guest *s, const char *event); /* a fact: exited, settled */
void guest_answer_at_end(struct guest *s, struct ask *a, const struct err *err);
