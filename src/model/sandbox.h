/* sandbox.h - what is known about a sandbox, and the states of its life.  Pure.
 *
 *   STARTING ──→ RUNNING ←──→ COPYING               a copy of its memory and files is taken, the sandbox goes on meanwhile
 *                 │  ↑ ↑ ↖       ↓
 *                 │  │ │   ─ SNAPSHOTTING           its files are too many for that: paused, copied, and begun again
 *                 │  │ │ ↖──→ ROLLING_BACK          ended, and begun again from one of its snapshots
 *                 ↓  │ └───────────────┐
 *               PAUSING ──→ PAUSED ──→ RESUMING
 *                            ↑↓ ↑↓
 *              COPYING_PAUSED ┘  └ ROLLING_BACK_PAUSED
 *
 *   any of them ──→ KILLING ──→ GONE; what dies by itself goes to GONE at once
 *
 * RESUMING, SNAPSHOTTING and ROLLING_BACK fall back to PAUSED when the sandbox could not be begun again, PAUSING to
 * RUNNING.  COPYING_PAUSED: its upper directory becomes a layer.  ROLLING_BACK_PAUSED: its row is a snapshot's already, and what
 * the engine has under its id is ended.
 *
 * All but COPYING, COPYING_PAUSED and GONE are in the store; a row says RUNNING and PAUSED for the first two.  A row stays, as
 * KILLING, until the engine has said that nothing of the sandbox is left: so after a crash what is to be ended has a name,
 * and what has none is not ended. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "model/ids.h"

enum sandbox_state { /* the numbers are in the store */
                     SANDBOX_STARTING = 0,
                     SANDBOX_RUNNING = 1,
                     SANDBOX_PAUSING = 2,
                     SANDBOX_PAUSED = 3,
                     SANDBOX_RESUMING = 4,
                     SANDBOX_SNAPSHOTTING = 5,
                     SANDBOX_ROLLING_BACK = 6,
                     SANDBOX_ROLLING_BACK_PAUSED = 7,
                     SANDBOX_COPYING = 8,
                     SANDBOX_COPYING_PAUSED = 9,
                     SANDBOX_KILLING = 10,
                     SANDBOX_GONE = 11,
};

enum sandbox_purpose { /* the numbers are in the store */
                       SANDBOX_FOR_CLIENT = 0,
                       /* A step of a template's build runs in it: no client sees it, no traffic reaches it, it is not counted,
                        * has no deadline, and is ended when control starts. */
                       SANDBOX_FOR_BUILD = 1,
};

enum choice { CHOICE_UNSET, CHOICE_NO, CHOICE_YES };

struct sandbox {
        char id[SANDBOX_ID_MAX];
        int64_t team; /* the owner's number in the store */
        enum sandbox_state state;
        enum sandbox_purpose purpose;
        char template_id[TEMPLATE_ID_MAX];
        char *alias; /* owned; NULL: the template has none */
        int64_t started_ns, end_ns;
        uint32_t cpu_count, memory_mb, disk_mb;
        bool is_secured;
        enum choice internet; /* allow_internet_access as it was asked for */
        json_t *metadata;     /* owned; NULL: none */
        json_t *network;      /* owned; as clients see it; NULL: none */
        json_t *mcp;          /* owned; kept for clients only; NULL: none */
        /* What happens at its end, and whether traffic resumes it. */
        bool auto_pause, auto_pause_memory, auto_resume;
        uint32_t timeout_s; /* as given at create */
        /* What it is made of: enough to start it again at any time. */
        json_t *layers; /* owned list of layer ids, lowest first; NULL: not known (a row of an older version) */
        json_t *env;    /* owned; NULL: none, or left in the store */
        char *default_user, *default_workdir; /* owned; NULL: envd's own default */
        /* Paused, or on the way there or back. */
        char checkpoint[CHECKPOINT_ID_MAX]; /* its memory; "": none */
        bool upper_kept;                    /* on the upper directory it left; false: on an empty one */
        char image_of[SANDBOX_ID_MAX];      /* whose token envd has inside the checkpoint; "": no checkpoint */
        bool image_secured;                 /* has it one? */
        /* PAUSED, and the engine says that it does not have it: the files are not on this disk (now).  Not in the store. */
        bool is_missing;
};

void sandbox_done(struct sandbox *s); /* releases what it owns; zeroed is fine */
/* The only writer of s->state; asserts that the graph above has the step. */
void sandbox_go(struct sandbox *s, enum sandbox_state next);

bool sandbox_is_public(const struct sandbox *s);          /* may traffic reach it without a token? */
const char *sandbox_mask_host(const struct sandbox *s);   /* borrowed; NULL: none */
bool sandbox_resumes_on_traffic(const struct sandbox *s); /* if it were paused */

bool sandbox_is_paused(const struct sandbox *s); /* also while its files are being copied or replaced */

/* How clients see the state. */
bool sandbox_is_visible(const struct sandbox *s);         /* in lists and by its id */
bool sandbox_is_shown_running(const struct sandbox *s);   /* else it is shown as paused */
bool sandbox_is_counted(const struct sandbox *s);         /* against the number that may run */
const char *sandbox_state_name(enum sandbox_state state); /* "pausing", for messages */
const char *sandbox_state_deed(enum sandbox_state state); /* "is being paused", for messages */

#define LAYERS_SEALED_MAX 16 /* more of them are merged in the background */
/* How many of the layers were upper directories once. */
size_t layers_sealed(const json_t *layers);
/* New references; NULL out of memory. */
json_t *layers_with(const json_t *layers, const char *more);
/* With the run of `count` layers from `first` on replaced by one. */
json_t *layers_merged(const json_t *layers, size_t first, size_t count, const char *into);
/* Where the run of layers `run` stands in `layers`; -1: nowhere. */
int layers_find(const json_t *layers, const json_t *run);
