/* registry.h - requests to the registry of one image: credentials, redirects, attempts; documents and blobs.
 *
 * Runs in: a thread of a job; blocks.  What comes is checked against what was announced, before and while it comes. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "image/image_manifest.h"
#include "image/image_ref.h"
#include "image/registry_auth.h"
#include "image/registry_url.h"
#include "puller/blobs.h"
#include "puller/fetch.h"

struct conf;
struct err;
struct puller_limits;

struct registry {
        const struct conf *conf; /* borrowed, as the next three */
        const struct puller_limits *limits;
        struct registry_auth *auth;
        struct image_ref ref;
        char origin[REGISTRY_ORIGIN_MAX];
        struct registry_url origin_url;
        bool is_mirror;          /* then it gets no credentials: they are for another host */
        char *authorization;     /* owned: for the origin, once it has asked for it */
        unsigned authorized;     /* counts each new one */
        struct fetcher *fetcher; /* owned */
};

struct registry_options {
        const struct conf *conf;
        const struct puller_limits *limits;
        const struct image_ref *ref;
        struct registry_auth *auth;
        const atomic_bool *is_cancelled;
};
int registry_open(struct registry *r, const struct registry_options *options, struct err *err);
void registry_close(struct registry *r);

/* The manifest by tag or digest, into *ret (its content replaced), and the digest that it really has.  `version` that is a digest
 * must be that digest. */
int registry_get_manifest(struct registry *r, const char *version, struct buf *ret, char ret_digest[IMAGE_DIGEST_MAX],
                          struct err *err);
/* A small blob, whole: of that digest and size. */
int registry_get_document(struct registry *r, const struct image_blob *blob, struct buf *ret, struct err *err);

/* Blobs into the directory, several at the same time; on success they are all there.  *done grows with the bytes that came, and
 * with the sizes of those that were there already. */
int registry_get_blobs(struct registry *r, struct blobs *to, const struct image_blob *blobs, size_t count,
                       _Atomic uint64_t *done, struct err *err);
