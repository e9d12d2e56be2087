/* probe.h - what the namespace engine needs from this host, tried out one by one; nothing is left behind.
 *
 * Used by the engine's start (so that a missing feature is named instead of showing as a failed mount) and by `doctor`.
 * Blocks for some milliseconds; forks. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define PROBE_DETAIL_MAX 400

struct probe_result {
        const char *name; /* static */
        bool ok;
        bool is_needed; /* false: without it sandboxes work, with less */
        char detail[PROBE_DETAIL_MAX];
        const char *fix; /* static; NULL: ok, or nothing can be done */
};

#define PROBES_MAX 16
/* Run them all; the number of results. */
size_t probe_all(struct probe_result out[PROBES_MAX]);
/* The first needed one that fails; NULL: this host can. */
const struct probe_result *probe_find_missing(const struct probe_result *results, size_t n);
