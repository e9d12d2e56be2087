/* pull.h - what the jobs of the puller do: resolve and pull an image of a registry, load the images of an archive.
 *
 * Runs in: a thread of its own; blocks.  Answers are as docs/internals/messages.md has them, without "req". */
#pragma once
#include <jansson.h>
#include <stdatomic.h>
#include <stdint.h>

#include "image/image_ref.h"
#include "image/registry_auth.h"

struct blobs;
struct conf;
struct err;
struct puller_limits;

struct pull { /* inputs are borrowed, and not changed by anybody else meanwhile */
        const struct conf *conf;
        const struct puller_limits *limits;
        struct blobs *blobs;
        const char *asked; /* the image as the client wrote it, for errors */
        struct image_ref ref;
        struct registry_auth auth; /* gets the password that it is exchanged for */
        int archive;               /* pull_load: fd of the archive */
        atomic_bool is_cancelled;
        _Atomic uint64_t done, total; /* bytes */
};

/* All: *ret is the caller's.  Errors begin with "image 'python:3.11' not found: ", or what else happened to it. */
int pull_resolve(struct pull *p, json_t **ret, struct err *err);
int pull_image(struct pull *p, json_t **ret, struct err *err);
int pull_load(struct pull *p, json_t **ret, struct err *err);

/* {"digest","diff_id","bytes"} for each layer; the sizes are those of the blobs.  NULL: out of memory. */
struct image_blob;
json_t *pull_show_layers(const struct image_blob *layers, size_t count, const json_t *diff_ids);
