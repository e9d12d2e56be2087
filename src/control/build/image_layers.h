/* image_layers.h - how the layers of an image become layers of ours, and under which keys they are cached, for all teams.
 *
 * The lowest layer of an image needs something to be unpacked on: a file system with nothing in it but the directories that every
 * sandbox has ("scratch"), made once on the template base. */
#pragma once
#include "model/build/build_key.h"

#define SCRATCH_COMMAND                                                                                                \
        "mkdir -p /sandglass-root && cd /sandglass-root && mkdir -p proc sys dev run tmp etc root && chmod 1777 tmp"

static inline void scratch_key(struct build_key *ret)
{
        build_key_base("scratch", "1", "", ret);
}

/* below: of the layers that it is unpacked on.  The key stands for all of them. */
static inline void image_layer_key(const struct build_key *below, const char *diff_id, struct build_key *ret)
{
        build_key_base("image layer", diff_id, below->hex, ret);
}
