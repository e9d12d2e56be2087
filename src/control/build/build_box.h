/* build_box.h - the sandbox of a build: started on a chain of layers, steps run in it through the builder, its files become a
 * layer, and it ends.
 *
 *   EMPTY ──(box_run)──→ STARTING → DIALLING → STEP ──→ IDLE ──(box_run)──→ DIALLING → ...
 *     ↑                                                  └──(box_commit)──→ COMMITTING ──┐
 *     └──────────────────(box_drop, from any state; or the sandbox has ended)────────────┘
 *
 * One thing at a time: callbacks come once, from the loop, and never before the function returns.  After a failure the sandbox
 * is still there, unless the error is ERR_GONE; box_drop() ends it. */
#pragma once
#include <jansson.h>

#include "control/build/role_link.h"
#include "control/engine_link/engine_link.h"
#include "control/life/lives.h"

struct build_box;
struct tokens;

enum box_state { BOX_EMPTY, BOX_STARTING, BOX_DIALLING, BOX_STEP, BOX_IDLE, BOX_COMMITTING };

struct box_base { /* what the sandbox begins with; all borrowed for the call */
        int64_t team;
        const char *template_id;
        const json_t *layers;
        uint32_t cpu_count, memory_mb, disk_mb;
};

struct box_ops {
        /* A step has ended: answer is the builder's, borrowed; NULL: err. */
        void (*on_step)(struct build_box *b, const json_t *answer, const struct err *err);
        /* The image is borrowed for the call: to be held (refs_hold) if it is wanted.  The box is EMPTY. */
        void (*on_image)(struct build_box *b, const struct image *image, const struct err *err);
        void (*on_log)(struct build_box *b, const json_t *entries); /* of the builder, while a step runs */
};

struct build_box {
        struct lives *lives; /* borrowed, as the next three */
        struct engine_link *engine;
        struct role_link *builder;
        const struct tokens *tokens;
        const struct box_ops *ops;
        enum box_state state;
        char id[SANDBOX_ID_MAX]; /* of its sandbox, unless EMPTY */
        struct life_waiter ended;
        struct image_taker taker;
        struct engine_call dial;
        struct role_call call;
        json_t *step;     /* owned: the step that waits for its sockets */
        int sockets[2];   /* owned: into the sandbox */
        unsigned wanted;  /* sockets */
        int file;         /* owned: handed over with the step; -1: none */
        struct task fail; /* on_step with `failure` */
        struct err failure;
};

void box_init(struct build_box *b, struct lives *lives, struct engine_link *engine, struct role_link *builder,
              const struct tokens *tokens, const struct box_ops *ops);
/* EMPTY or IDLE: run a step, in a new sandbox if there is none.  step is stolen; file is taken (-1: none); sockets: 1, or 2
 * for a step that needs two connections. */
void box_run(struct build_box *b, const struct box_base *base, json_t *step, int file, unsigned sockets);
/* IDLE. */
int box_commit(struct build_box *b, const struct life_commit *how, struct err *err);
void box_drop(struct build_box *b); /* fine when EMPTY: the sandbox ends, and nobody is called */

static inline bool box_is_empty(const struct build_box *b)
{
        return b->state == BOX_EMPTY;
}
