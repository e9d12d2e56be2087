/* flattener.h - the engine's helper that merges sealed layers (flatten.h), one job after the other.
 *
 * A merged layer appears under its name when it is complete and on disk.  What a killed helper left has another name and is
 * removed when the next one starts, which does again what was asked and not answered. */
#pragma once
#include <jansson.h>

#include "base/list.h"
#include "engine/helper.h"

struct ask;
struct err;

#define FLATTENER_JOBS_MAX 64u
#define FLATTENER_UNFINISHED ".flatten-" /* sealed/.flatten-<id>: a merge under way, or one that was killed */

struct flattener {
        struct loop *loop;
        int sealed_dir; /* borrowed */
        struct helper helper;
        struct list jobs; /* asked, not answered; in the order they are done */
        unsigned count;
};

int flattener_start(struct flattener *f, struct loop *l, int sealed_dir, struct err *err);
void flattener_stop(struct flattener *f); /* what was asked is answered `unavailable`; the helper ends */

/* {"layers":["u-…", lowest first],"into":"u-…"}: answered when done. */
int flattener_op(struct flattener *f, const json_t *msg, struct ask *a, struct err *err);
bool flattener_is_making(const struct flattener *f, const char *layer);
