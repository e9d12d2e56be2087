/* build_run.h - one build under way: what the files of this directory share to drive it.
 *
 * A build is a stack of frames.  A frame makes one chain (build_chain.h): the base first, then step after step.  The lowest frame
 * is the last stage of the request.  What a frame needs on the way is a frame above it: the stage or the image it begins with or
 * copies from, or the recipe that stands in for an image.  When the last frame is done, the build is finalized.
 *
 *   build_advance() takes the next step of the top frame until something has to be waited for; every callback ends in it.
 *
 * There are three ways out: READY, ERROR with a reason, or begun again (build_trip: something of ours went away). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "control/build/build_box.h"
#include "control/build/build_chain.h"
#include "control/build/builds_run.h"
#include "control/catalogue/build_log.h"
#include "model/build/build_request.h"
#include "model/recipe/recipe.h"

#define STAGE_NONE SIZE_MAX
#define BUILD_LAYERS_MAX 48 /* in a chain; more are merged */

enum build_progress {
        BUILD_GOES_ON, /* call again */
        BUILD_WAITS,   /* a callback will come */
        BUILD_OVER,    /* READY, ERROR, or begun again: the build or its frames are gone */
};

enum frame_kind {
        FRAME_STAGE,  /* of the request */
        FRAME_IMAGE,  /* an image that is copied from: a base without steps */
        FRAME_RECIPE, /* stands in for an image: shared by all teams */
};

struct build_pull { /* an image of a registry: build_pull.c */
        struct role_call call;
        json_t *answer;    /* owned: config, layers; NULL: not pulled yet */
        size_t next;       /* layer to be unpacked */
        uint64_t shown;    /* bytes, in the log */
        const char *below; /* static: what the box is to be committed with; NULL: all files */
};

struct build_frame {
        struct build_run *build;
        struct build_frame *below; /* owned stack */
        enum frame_kind kind;
        size_t stage_index;              /* of the request; STAGE_NONE: none */
        const struct build_stage *stage; /* borrowed from the request, or from `own` */
        struct build_request own;        /* of a recipe or an image */
        struct recipe recipe;            /* FRAME_RECIPE */
        int64_t team;                    /* whose cache: LAYER_CACHE_SHARED for recipes */
        bool has_base, has_user;         /* the chain has its base; and its first user */
        size_t next;                     /* step */
        struct build_chain chain;
        struct build_chain made; /* what the frame above has made, for this one */
        struct build_key key;    /* of the step under way */
        json_t *env;             /* owned: of the ENV under way */
        struct build_box box;
        struct build_pull pull;
        int archive;                 /* owned: what a COPY takes from another chain; -1: none */
        bool is_archiving;           /* the box is on that chain */
        char merging[SEALED_ID_MAX]; /* the layer to which the chain is being merged; held; "": none */
        struct engine_call merge;
};

enum finalize_step { FINAL_BEGIN, FINAL_CONFIGURE, FINAL_START, FINAL_COMMIT, FINAL_FLUSH, FINAL_SYNC };

struct build_run {
        struct builds_run *all;
        struct list node;
        char id[UUID_MAX];
        char template_id[TEMPLATE_ID_MAX];
        int64_t team;
        uint32_t cpu_count, memory_mb, disk_mb;
        struct build_request request;
        struct build_frame *top;    /* owned; NULL: finalizing */
        struct build_chain *stages; /* owned, one for each of the request; without layers: not made */
        json_t *pulled;             /* owned: images that get a row when their layers are on disk; NULL: none */
        json_t *held;               /* owned: names of layers that are held for this build (refs.h) */
        int64_t began_ns;           /* of this attempt, for the log */
        struct timer overdue, again;
        struct task advance, free_task;
        bool is_over;
        /* finalizing */
        enum finalize_step final;
        struct build_chain chain;
        struct build_key final_key;
        struct build_box box;
        const char *start_cmd, *ready_cmd; /* borrowed from the request or the chain; NULL: none */
        json_t *final_layers;              /* owned */
        char checkpoint[CHECKPOINT_ID_MAX], image_of[SANDBOX_ID_MAX];
        bool image_secured;
        struct engine_call flush;
        struct durable_waiter synced;
        uint64_t flushing;
};

/* ---- build_run.c ---- */
extern const struct err build_no_memory;
void build_advance(struct build_run *b);
void build_go_on(struct build_run *b); /* build_advance(), from the loop */
/* The build has failed: by what was asked for. */
enum build_progress build_fail(struct build_run *b, const char *step, const char *fmt, ...) PRINTF(3, 4);
/* It failed, for a reason that the error tells: in the name of the one who asked for it, or because something of ours went away,
 * and then it is begun again. */
enum build_progress build_trip(struct build_run *b, const char *step, const struct err *err);
int build_hold_layers(struct build_run *b, const char *checkpoint, const json_t *layers); /* -ENOMEM */
void build_say(struct build_run *b, enum build_log_level level, const char *step, const char *fmt, ...) PRINTF(4, 5);
struct box_base build_box_base(const struct build_run *b, const json_t *layers);
void build_end(struct build_run *b);   /* frees it, from the loop; all it has begun is ended */
void build_ready(struct build_run *b); /* its row is written: the last words */

/* ---- build_frame.c ---- */
enum build_progress frame_advance(struct build_frame *f);
/* A new top of the stack.  NULL: no memory. */
struct build_frame *frame_push(struct build_run *b, enum frame_kind kind, const struct build_stage *stage,
                               size_t stage_index);
void frame_free(struct build_frame *f);
const char *frame_step_name(const struct build_frame *f,
                            char room[16]); /* for reasons and the log: "base" or a number */
enum build_progress frame_trip(struct build_frame *f, const struct err *err);
void frame_on_step(struct build_box *box, const json_t *answer, const struct err *err);
void frame_on_image(struct build_box *box, const struct image *image, const struct err *err);
void frame_on_log(struct build_box *box, const json_t *entries);
/* Too many layers for one more?  Then they are merged, and BUILD_WAITS. */
enum build_progress frame_shorten(struct build_frame *f);

/* ---- build_step.c ---- */
enum build_progress step_take(struct build_frame *f); /* the next of the stage's steps */
/* The box has run it. */
enum build_progress step_answered(struct build_frame *f, const json_t *answer);
enum build_progress step_committed(struct build_frame *f, const char *layer);
void step_label(const struct build_frame *f, char *out, size_t size); /* "[builder 1/3]" */

/* ---- build_base.c ---- */
enum build_progress base_take(struct build_frame *f);
int base_apply_recipe(
        struct build_frame *f); /* FRAME_RECIPE: the image that it stands in for has this context; -ENOMEM */
/* The chain is an image with this configuration (env, as "NAME=value"). */
enum build_progress base_is_image(struct build_frame *f, json_t *layers, const char *id, const json_t *config);
enum build_progress base_answered(struct build_frame *f, const json_t *answer); /* the box has made the first user */
enum build_progress base_committed(struct build_frame *f, const char *layer);

/* ---- build_pull.c ---- */
enum build_progress pull_take(struct build_frame *f);
enum build_progress pull_unpacked(struct build_frame *f, const char *layer);
void pull_done(struct build_pull *p);

/* ---- build_finalize.c ---- */
enum build_progress finalize_advance(struct build_run *b);
void finalize_done(struct build_run *b); /* releases what it has; fine when it has not begun */
extern const struct box_ops finalize_box_ops, frame_box_ops;
