/* image_ref.h - names of images, as people write them: "python:3.11", "ghcr.io/a/b@sha256:...".  Pure.
 *
 * Names without a registry are of docker.io; names of docker.io without a slash are of its "library". */
#pragma once
#include <stdbool.h>

#include "base/str.h"

struct err;

#define IMAGE_HOST_MAX 260  /* with port and NUL */
#define IMAGE_PATH_MAX 256  /* the same */
#define IMAGE_TAG_MAX 129   /* 128 characters */
#define IMAGE_DIGEST_MAX 72 /* "sha256:" and 64 digits */
#define IMAGE_NAME_MAX (IMAGE_HOST_MAX + IMAGE_PATH_MAX + IMAGE_TAG_MAX)
#define IMAGE_DEFAULT_HOST "docker.io"

struct image_ref {
        char host[IMAGE_HOST_MAX];     /* "docker.io", "localhost:5000"; lower case */
        char path[IMAGE_PATH_MAX];     /* "library/python" */
        char tag[IMAGE_TAG_MAX];       /* "" only with a digest */
        char digest[IMAGE_DIGEST_MAX]; /* "": none */
};

/* What follows the first blank is left out: clients send "node:18 AS build".  ERR_INVALID says what is wrong. */
int image_ref_parse(struct str text, struct image_ref *ret, struct err *err);
/* "docker.io/library/python:3.11"; with a digest "docker.io/library/python@sha256:...".  Parses to the same again, but for
 * a tag beside a digest, which says nothing more. */
void image_ref_name(const struct image_ref *ref, char out[IMAGE_NAME_MAX]);
/* What a registry knows it by: the digest, else the tag. */
const char *image_ref_version(const struct image_ref *ref);

/* "sha256:" and 64 lower-case hexadecimal digits: the only kind that is known here. */
bool image_digest_is_valid(struct str text);
