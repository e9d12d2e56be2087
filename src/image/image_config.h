/* image_config.h - the configuration of an image: what its makers want programs in it to have.  Pure.
 *
 * Bytes from outside: what is taken has the types that are promised here. */
#pragma once
#include <jansson.h>

#include "base/str.h"

struct err;

struct image_config {
        /* {"env":["K=V"],"user","workdir","entrypoint":[],"cmd":[],"healthcheck"?:{"test":[],"interval_ms","timeout_ms",
         * "start_period_ms","retries"}}; user and workdir are "" where the image says nothing. */
        json_t *runtime;  /* owned */
        json_t *diff_ids; /* owned: digests of the layers as plain tar archives, lowest first */
};

/* ERR_INVALID: damaged, of another architecture than `architecture` (where it names one), or not of `layer_count` layers. */
int image_config_decode(struct str text, const char *architecture, size_t layer_count, struct image_config *ret,
                        struct err *err);
void image_config_done(struct image_config *c);
