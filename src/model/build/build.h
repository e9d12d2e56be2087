/* build.h - one build of a template: from its request to what sandboxes are started from.  Pure.
 *
 *   WAITING ──→ BUILDING ──→ READY
 *      └────────────┴──────→ ERROR          superseded, cancelled, or failed: `reason`
 *
 * READY and ERROR are for good.  Only a build that is READY has an image: its fields are those of a snapshot. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "model/ids.h"

enum build_status { /* the numbers are in the store */
                    BUILD_WAITING = 0,
                    BUILD_BUILDING = 1,
                    BUILD_READY = 2,
                    BUILD_ERROR = 3,
};

#define BUILD_ATTEMPTS_MAX 3 /* a build is begun again so often after a crash */

struct build {
        char id[UUID_MAX];
        char template_id[TEMPLATE_ID_MAX];
        uint32_t number; /* of this template: 1, 2, ... */
        enum build_status status;
        json_t *tags; /* owned list of texts: the tags that point to the build when it is ready */
        uint32_t cpu_count, memory_mb, disk_mb;
        int64_t created_ns, updated_ns, finished_ns; /* finished_ns: 0: not yet */
        json_t *reason;                              /* owned; ERROR: {"message","step"?}; NULL otherwise */
        uint32_t attempts;
        /* The image, as in struct snapshot. */
        char checkpoint[CHECKPOINT_ID_MAX]; /* "": files only */
        json_t *layers;                     /* owned; NULL: not READY */
        char image_of[SANDBOX_ID_MAX];
        bool image_secured;
        json_t *env;                          /* owned; NULL: none */
        char *default_user, *default_workdir; /* owned; NULL: envd's own default */
        char *start_cmd, *ready_cmd;          /* owned; NULL: none */
};

void build_done(struct build *b); /* releases what it owns; zeroed is fine */

const char *build_status_name(enum build_status status); /* as clients see it: "waiting", ... */
static inline bool build_is_over(const struct build *b)
{
        return b->status == BUILD_READY || b->status == BUILD_ERROR;
}
bool build_has_tag(const struct build *b, const char *tag);
/* Do both builds have a tag in common? */
bool build_shares_tag(const struct build *a, const struct build *b);
