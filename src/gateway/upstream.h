/* upstream.h - one MCP server behind the gateway: a program that speaks JSON-RPC on stdin and stdout, a message in each line.
 *
 *      STARTING ──initialize, tools/list──> READY ──its process ends──> STARTING, or FAILED after UPSTREAM_STARTS starts in a row
 *         └──time is up, its process ends, garbage──> FAILED (with the reason)
 *
 * A start counts no more once the server has run for UPSTREAM_WELL_MS.  Calls that are under way when the process ends are answered
 * with that. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "gateway/catalogue.h"
#include "io/loop.h"

struct call;
struct program;

#define UPSTREAM_START_MS 300000u /* installing from npm included */
#define UPSTREAM_LIST_MS 30000u   /* for a list that has changed: later than that, the list stays */
#define UPSTREAM_CALL_MINUTES 60u /* for a call */
#define UPSTREAM_AWAY_MINUTES 2u  /* ... whose client has left and does not come back: more than one minute */
#define UPSTREAM_STARTS 3u
#define UPSTREAM_WELL_MS 60000u
#define UPSTREAM_LINE_BYTES_MAX (32u << 20)
#define UPSTREAM_REASON_MAX 512

struct upstream;
/* Its state has changed, or the tools that can be called. */
typedef void (*upstream_changed)(struct upstream *u, bool tools_changed);

enum upstream_state { UPSTREAM_STARTING, UPSTREAM_READY, UPSTREAM_FAILED };

struct upstream {
        struct list node;
        struct loop *loop;
        char *name; /* owned */
        struct launch launch;
        enum upstream_state state;
        char reason[UPSTREAM_REASON_MAX]; /* why it failed; the last words of its stderr before that */
        struct program *program;          /* NULL: it does not run */
        struct buf line;                  /* of stdout, not complete yet */
        json_t *tools;                    /* owned: {name: tool}; they stay when it does not run */
        json_t *pending;                  /* owned: those of the pages so far */
        unsigned pages;                   /* of these */
        struct list requests;             /* struct upstream_request */
        json_int_t next_id;
        unsigned starts;     /* in a row */
        uint64_t ready_ms;   /* since when it runs */
        struct timer timer;  /* while it starts, or is asked for its list */
        struct timer minute; /* while there are calls: upstream_minute() */
        bool is_stale;       /* the list changed while it was asked for */
        struct task failing; /* posted: it fails, because of ... */
        const char *fault;   /* ... this; NULL: nothing is wrong */
        upstream_changed on_change;
        void *arg;
};

/* Takes `launch`.  NULL: no memory.  upstream_start() begins. */
struct upstream *upstream_create(struct loop *loop, const char *name, struct launch *launch, upstream_changed on_change,
                                 void *arg);
struct upstream *upstream_failed(struct loop *loop, const char *name, const char *reason); /* one that never starts */
void upstream_start(struct upstream *u);
struct upstream *upstream_free(struct upstream *u);
/* Pass the call on; the answer finishes the call. */
void upstream_call(struct upstream *u, struct call *c, const char *tool, json_t *args);
/* Each minute while calls are under way: those that nobody waits for, or that took too long, end. */
void upstream_minute(struct upstream *u);
