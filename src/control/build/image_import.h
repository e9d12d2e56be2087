/* image_import.h - an image becomes layers and a row of its own, without a build: `sandglass image pull` and `load`.
 *
 *   the puller fetches → each layer is unpacked in a sandbox, or found in the cache → all are flushed → rows → the disk has them
 *
 * What is done before a failure stays in the cache, so that the next attempt is shorter. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "control/build/build_box.h"
#include "control/build/builds_run.h"
#include "control/catalogue/durable.h"
#include "control/engine_link/engine_link.h"
#include "model/build/build_key.h"

struct image_import {           /* zeroed to begin with; not touched while it is under way */
        struct builds_run *all; /* borrowed */
        int64_t team;           /* whose sandboxes unpack */
        const char *source;     /* static: "registry" or "archive" */
        /* Facts on the way: {"done","total"} in bytes, or {"unpacking":n,"of":m,"image":…}.  Borrowed. */
        void (*on_progress)(struct image_import *im, const json_t *fact);
        /* The end, from the loop, once.  images: of struct image_row, as JSON, borrowed; NULL: err. */
        void (*on_done)(struct image_import *im, const json_t *images, const struct err *err);
        /* its own */
        struct role_call call;
        json_t *images;      /* owned: as the puller gave them; NULL: they are being fetched */
        json_t *rows;        /* owned: of those that are unpacked */
        size_t image, layer; /* under way */
        json_t *layers;      /* owned: of ours, so far; NULL: not even scratch */
        struct build_key below, key;
        const char *commits; /* static: what of the box becomes a layer; NULL: all */
        json_t *held;        /* owned: layers that are held (refs.h) */
        struct build_box box;
        struct engine_call flush;
        uint64_t flushing;
        struct durable_waiter synced;
        struct task advance;
};

/* The callbacks, `all`, `team` and `source` are set.  auth NULL: none. */
void image_import_pull(struct image_import *im, const char *image, const json_t *auth);
void image_import_load(struct image_import *im, int fd); /* an archive; the fd stays the caller's */
void image_import_cancel(struct image_import *im);       /* at any time: everything is ended, nobody is called */
