/* standby.h - sandboxes that are restored ahead: a create from a template with a checkpoint is then a hand-over (hand_over.h).
 *
 * A standby is a guest whose processes were restored onto new files and frozen before one of them ran.  It has a slot, and no
 * identity: its name is that of a standby (model/ids.h), nobody is told of it, and nothing can reach it.
 *
 *     WAITING --> RESUMING (a job process restores it) --> STANDBY --> RESUMING (a job process hands it over) --> RUNNING
 *
 * Control says which templates are to have how many (`standbys`).  One is made at a time, a moment after the last create, within
 * a budget of memory (conf standby_memory_mb).  They go when control wants others, when memory or slots run short, when a
 * checkpoint or layer of theirs is dropped, and with the engine: the next one ends what it finds under the name of a standby. */
#pragma once
#include <jansson.h>

#include "base/list.h"
#include "engine/guest/deferred.h"
#include "engine/guest/guest.h"
#include "engine/storage/host_layer.h"
#include "model/plan.h"
#include "model/standby/standby_choice.h"

struct standby { /* of a guest that is or was one; until the hand-over is done */
        struct list node;
        struct guest *guest;
        struct plan_create plan; /* owned: what it was made for */
        uint64_t bytes;          /* STANDBY: what it was counted with */
        char host_version[HOST_LAYER_VERSION_MAX];
        /* while it is handed over */
        char former_id
                [SANDBOX_ID_MAX]; /* the name it had, and which its directory may still have; "": it has that name */
        json_t *request;          /* owned: the create that it is for */
        request_op *again;        /* does that without a standby, when the hand-over fails */
};

struct standby_want {            /* of one template */
        json_t *message;         /* owned: the plan, as control sent it */
        struct plan_create plan; /* owned: the same */
        unsigned count;
        uint64_t bytes; /* of the last one that was made; 0: there was none */
};

struct standbys {
        struct engine *engine;
        struct standby_want wants[STANDBY_KINDS_MAX]; /* in order */
        size_t want_count;
        struct list all; /* struct standby: STANDBY, oldest first */
        unsigned count;
        uint64_t bytes;
        struct guest *making; /* NULL: none */
        struct timer look;
        uint64_t look_ms;       /* when the timer fires */
        uint64_t make_after_ms; /* none is made before: memory ran short, or making one failed */
        unsigned failures;      /* in a row */
        uint64_t hits, misses;
        bool is_stopped;
};

int standbys_start(struct engine *e, struct err *err);
/* Those that are there, or being made, end.  Blocks; before job queue and disk helper are stopped. */
void standbys_stop(struct engine *e);
/* Control's request {wants: [{plan, count}]}: these and no others. */
int standbys_want(struct engine *e, const json_t *msg, struct ask *a, struct err *err);
void standbys_describe(const struct engine *e, json_t *info);

/* STANDBY, and what the plan asks for; NULL: there is none. */
struct guest *standbys_find(struct engine *e, const struct plan_create *plan);
/* Was it done by a standby?  Only plans of which there should be one are counted. */
void standbys_count(struct engine *e, const struct plan_create *plan, bool is_hit);
void standbys_unlist(struct guest *g); /* it is no STANDBY any more; fine when it is not listed */
void standbys_forget(struct guest *g); /* it is a sandbox now, or about to be freed; fine when it never was one */
void standbys_look_later(struct engine *e);

bool guest_is_standby(const struct guest *g); /* by its name: also one that an engine before this one left */
/* Memory is wanted: true, and one of them goes; false: there is none. */
bool standbys_give_one(struct engine *e, const char *why);
/* A hand-over failed: what was in the way may be in the way of others that begin alike.  They go, and are made again later. */
void standbys_drop_like(struct engine *e, const struct plan_create *plan);
/* The checkpoint or layer is to be dropped: those that use it go.  True: some are not gone yet. */
bool standbys_let_go_of(struct engine *e, const char *name);
