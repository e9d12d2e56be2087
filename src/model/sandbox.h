/* sandbox.h - what is known about a sandbox, and the states of its life.  Pure.
 *
 *   STARTING ──→ RUNNING ──→ KILLING ──→ GONE
 *       └───────────┴───(died, or never came up)───↑
 *
 * STARTING and RUNNING are in the store.  A sandbox's row is removed before the engine is told to end it, so KILLING
 * needs no row: after a crash the engine still has one that the store does not know, and that means "end it". */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "model/ids.h"

enum sandbox_state { SANDBOX_STARTING, SANDBOX_RUNNING, SANDBOX_KILLING, SANDBOX_GONE };

enum choice { CHOICE_UNSET, CHOICE_NO, CHOICE_YES };

struct sandbox {
        char id[SANDBOX_ID_MAX];
        int64_t team; /* the owner's number in the store */
        enum sandbox_state state;
        char template_id[TEMPLATE_ID_MAX];
        char *alias; /* owned; NULL: the template has none */
        int64_t started_ns, end_ns;
        uint32_t cpu_count, memory_mb, disk_mb;
        bool is_secured;
        enum choice internet; /* allow_internet_access as it was asked for */
        json_t *metadata;     /* owned; NULL: none */
        json_t *network;      /* owned; as clients see it; NULL: none */
        json_t *mcp;          /* owned; kept for clients only; NULL: none */
};

void sandbox_done(struct sandbox *s); /* releases what it owns; zeroed is fine */
/* The only writer of s->state; asserts that the graph above has the step. */
void sandbox_go(struct sandbox *s, enum sandbox_state next);

bool sandbox_is_public(const struct sandbox *s);        /* may traffic reach it without a token? */
const char *sandbox_mask_host(const struct sandbox *s); /* borrowed; NULL: none */
