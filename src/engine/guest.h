/* guest.h - one sandbox in the engine, from its plan to its end.
 *
 *     WAITING --cell--> STARTING --envd is ready--> RUNNING --kill or death--> ENDING --process dead--> freed
 *        |                  |
 *        '-- no cell        '-- any step failed, too slow, asker gone --> ENDING
 *
 * Making one is a row of steps (start.c); ending one undoes whatever was done, in reverse, whichever way it came about
 * (guest_bury). */
#pragma once
#include <stdint.h>
#include <sys/types.h>

#include "engine/ask.h"
#include "engine/engine.h"
#include "engine/record.h"

struct err;
struct start;

enum guest_state { GUEST_WAITING, GUEST_STARTING, GUEST_RUNNING, GUEST_ENDING };

struct guest {
        struct engine *engine;
        enum guest_state state;
        struct record record; /* slot 0: no cell yet */
        struct io death;      /* pidfd: readable once every process in it is gone */
        int netns;
        bool has_rules;      /* in the packet filter */
        struct start *start; /* owned; while WAITING or STARTING */
        struct list waiting; /* struct end_wait: who is answered at its end */
        struct task free_task;
};

struct guest *guest_find(const struct engine *e, const char *id); /* in any state; NULL */
/* New, WAITING, in the map.  ERR_CONFLICT: the id is in use. */
int guest_add(struct engine *e, const char *id, struct guest **ret, struct err *err);
void guest_go(struct guest *s, enum guest_state next);
int guest_watch(struct guest *s, int pidfd); /* takes it */

/* Carry out the plan (taken) and answer a. */
void guest_create(struct engine *e, struct plan_create *plan, struct ask *a);
/* End it; a is answered once its processes are gone. */
void guest_kill(struct guest *s, struct ask *a);
/* Making it failed: undo, then answer with err whoever asked for it. */
void guest_fail(struct guest *s, const struct err *err);
int guest_set_net(struct guest *s, struct plan_net *net /* taken on success */, struct err *err);
int guest_save(struct guest *s, struct err *err); /* its record, after a change */
/* Its process is dead, or it never had one: undo everything. */
void guest_bury(struct guest *s);
