/* image_manifest.h - what a registry says an image consists of: Docker's version 2 schema 2 and OCI.  Pure.
 *
 * Bytes from outside: every field is checked, every number has a limit. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "image/image_ref.h"

struct err;

#define IMAGE_MANIFEST_BYTES_MAX (4u << 20)
#define IMAGE_CONFIG_BYTES_MAX (8u << 20)
#define IMAGE_LAYERS_MAX 256
#define IMAGE_BYTES_MAX (256ull << 30) /* all layers of an image together, as downloaded */
#define IMAGE_MANIFESTS_MAX 1024       /* in an index */

/* The value of "Accept" that asks for what is understood here. */
#define IMAGE_MANIFEST_TYPES                                                                                           \
        "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, "         \
        "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"

struct image_blob {
        char digest[IMAGE_DIGEST_MAX];
        uint64_t bytes; /* as the manifest says */
};

struct image_manifest {
        bool is_index; /* it names others; `config` is the one for the wanted architecture, and has no layers */
        struct image_blob config;  /* of an index: the manifest to go on with */
        struct image_blob *layers; /* owned; lowest first */
        size_t layer_count;
        uint64_t layer_bytes; /* of all */
};

/* "amd64", "arm64", ...: what images call the architecture of this program. */
const char *image_architecture(void);

/* ERR_INVALID: it is damaged, of an old or foreign kind, or past a limit.  ERR_NOT_FOUND: an index without the architecture. */
int image_manifest_decode(struct str text, const char *architecture, struct image_manifest *ret, struct err *err);
void image_manifest_done(struct image_manifest *m);
