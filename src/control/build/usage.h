/* usage.h - who holds what on the disk: templates, snapshots, sandboxes, images and the cache, each with the checkpoints and
 * sealed layers that its rows name. */
#pragma once
#include <jansson.h>

struct builds_run_options;

/* From the engine's answer to "usage".
 *
 *   {"free","total","bases","lost","trash","uploads","cache":{"steps","bytes","alone"},
 *    "holders":[{"kind":"template"|"snapshot"|"image"|"sandbox","id","name"?,"bytes","alone"}]}
 *
 * bytes: of everything that it names; alone: of what nobody else names, and what would be free without it.  New reference; NULL:
 * out of memory. */
json_t *usage_report(const struct builds_run_options *o, const json_t *answer);
