/* images.h - images that builds can start from without asking a registry: pulled, loaded, or made by a recipe; all in memory, as in
 * the store.  Their layers count in refs.h. */
#pragma once
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

struct err;
struct refs;
struct store;

struct image_row {
        struct list node;
        char *name;            /* owned: canonical, with its tag or digest */
        char *digest, *source; /* owned; source: "registry", "archive" or "recipe" */
        json_t *layers;        /* owned: names of layers, lowest first */
        json_t *config;        /* owned: env, user, workdir, entrypoint, cmd: as the puller gives it */
        int64_t bytes, created_ns;
};

struct images {
        struct store *store; /* borrowed, as the next */
        struct refs *refs;
        struct list all; /* of struct image_row, owned */
        size_t count;
};

int images_init(struct images *is, struct store *store, struct refs *refs, struct err *err);
void images_done(struct images *is); /* also zeroed */

struct image_row *images_find(const struct images *is, const char *name); /* or NULL; borrowed until the next change */
/* What was there under the name is replaced.  The fields of `row` are copied. */
int images_put(struct images *is, const struct image_row *row, struct err *err);
int images_remove(struct images *is, const char *name, struct err *err); /* ERR_NOT_FOUND */
