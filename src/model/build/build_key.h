/* build_key.h - under which key the result of a step is cached: a hash of everything that the result depends on.  Pure.
 *
 * A key stands for a whole chain: the base, and every step up to this one.  So two builds share a step exactly when all
 * before it is the same, too. */
#pragma once
#include "wire/sha256.h"

struct build_step;

struct build_key {
        char hex[SHA256_HEX_LEN + 1];
};

/* What a stage begins with.  kind: "image", "template", ...; id: what says which one and in which state (the digest of an
 * image, the id of a template's build); context: where the same base is begun differently (the first user); "": not. */
void build_key_base(const char *kind, const char *id, const char *context, struct build_key *ret);
/* The chain of `before` with one more step.  source: for a COPY from a stage or an image the key or digest of that; NULL or
 * "": none. */
void build_key_step(const struct build_key *before, const struct build_step *step, const char *source,
                    struct build_key *ret);
