/* archive_index.h - which files of an archive are an image: manifest.json of `docker save`, index.json of an OCI layout.  Pure.
 *
 * Bytes from outside: names are compared with names in the archive only, never used as paths. */
#pragma once
#include <stddef.h>

#include "base/str.h"
#include "image/image_manifest.h"

struct err;

#define ARCHIVE_INDEX_BYTES_MAX (4u << 20)
#define ARCHIVE_IMAGES_MAX 256
#define ARCHIVE_NAME_MAX 1024

struct archive_image {
        char *name;    /* owned; as in the archive: "python:3.11"; NULL: it has none */
        char *config;  /* owned; docker: name of the file; OCI: NULL */
        char **layers; /* owned; docker: names of the files, lowest first; OCI: NULL */
        size_t layer_count;
        char digest[IMAGE_DIGEST_MAX]; /* OCI: of the manifest, or of another index; docker: "" */
};

struct archive_index {
        struct archive_image *images; /* owned */
        size_t image_count;
};

int archive_index_decode_docker(struct str text, struct archive_index *ret, struct err *err);
int archive_index_decode_oci(struct str text, struct archive_index *ret, struct err *err);
void archive_index_done(struct archive_index *a);
