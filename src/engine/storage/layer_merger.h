/* layer_merger.h - the engine's helper that merges sealed layers (layer_merge.h), one job after the other.
 *
 * A merged layer appears under its name when it is complete and on disk.  What a killed helper left has another name and is
 * removed when the next one starts, which does again what was asked and not answered. */
#pragma once
#include <jansson.h>

#include "base/list.h"
#include "engine/host/helper.h"

struct ask;
struct err;

#define LAYER_MERGER_JOBS_MAX 64u
#define LAYER_MERGER_UNFINISHED ".merge-" /* sealed/.merge-<id>: a merge under way, or one that was killed */

struct layer_merger {
        struct loop *loop;
        int sealed_dir; /* borrowed */
        struct helper helper;
        struct list jobs; /* asked, not answered; in the order they are done */
        unsigned count;
};

int layer_merger_start(struct layer_merger *f, struct loop *l, int sealed_dir, struct err *err);
void layer_merger_stop(struct layer_merger *f); /* what was asked is answered `unavailable`; the helper ends */

/* {"layers":["u-…", lowest first],"into":"u-…"}: answered when done. */
int layer_merger_op(struct layer_merger *f, const json_t *msg, struct ask *a, struct err *err);
bool layer_merger_is_making(const struct layer_merger *f, const char *layer);
