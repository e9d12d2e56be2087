/* layer_merger.h - the engine's helper process that merges sealed layers (layer_merge.h), one merge after the other.
 *
 * A merged layer appears under its name when it is complete and on disk.  A merge that is under way has another name.  When the
 * helper dies, the next helper removes what is half-done and does every merge again that was not answered. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/list.h"
#include "engine/host/helper.h"
#include "engine/layers/layer_merge.h"

struct err;

#define LAYER_MERGER_JOBS_MAX 64u
#define LAYER_MERGER_UNFINISHED ".merge-" /* sealed/.merge-<id>: a merge under way, or one whose helper died */

struct layer_merger {
        struct loop *loop;
        int sealed_dir; /* borrowed */
        struct helper helper;
        struct list jobs; /* merges without an answer, in the order in which they are done */
        unsigned count;
};

/* err: ERR_NONE, or why the layers are not merged. */
typedef void layer_merger_on_done(void *arg, const struct layer_merge_count *count, const struct err *err);

int layer_merger_start(struct layer_merger *f, struct loop *l, int sealed_dir, struct err *err);
void layer_merger_stop(struct layer_merger *f); /* merges without an answer fail as `unavailable`; the helper ends */

/* Merge layers[0..n-1], lowest first, into a new layer.  Ids are valid, n is 1 to PLAN_LAYERS_MAX; all of them are copied.
 * on_done is called once, from the loop, or by layer_merger_stop().  Negative: nothing was begun. */
int layer_merger_merge(struct layer_merger *f, const char *const *layers, size_t n, const char *into,
                       layer_merger_on_done *on_done, void *arg, struct err *err);
bool layer_merger_is_making(const struct layer_merger *f, const char *layer);
