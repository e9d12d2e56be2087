/* recipe.h - what stands in for a well-known image where no registry is asked: a base, and steps that add packages of Debian
 * and npm to it.  Pure. */
#pragma once
#include <jansson.h>

struct err;

#define RECIPE_BASE "template:base"
#define RECIPE_ROOT "/sandglass-root" /* where the steps of a recipe with a suite make the root file system */

struct recipe {
        char from[64]; /* RECIPE_BASE, or the name of an image that has a recipe, too: "debian:bookworm" */
        const char *
                suite; /* static; NULL: the steps change what `from` has.  Otherwise a Debian suite: `from` is RECIPE_BASE,
                            * the steps make the suite's file system in RECIPE_ROOT, and only that directory becomes the
                            * layer, with no layer below it */
        json_t *steps;              /* owned: an array of RUN steps as in a start request, all as root; may be empty */
        json_t *env;                /* owned: an object, the environment of the image; may be empty */
        const char *workdir, *user; /* static; NULL: the image has none */
        char note[240];             /* for people, never empty: "Debian trixie stands in for ubuntu:24.04" */
};

/* `image` is a reference as in FROM: "python:3.11-slim", "docker.io/library/debian", "node:24 AS build".
 * ERR_NOT_FOUND: no recipe makes this image; the message says what would help, for example a registry.
 * ERR_LIMIT: out of memory.  On success *ret is the caller's, to be given to recipe_done(). */
int recipe_find(const char *image, struct recipe *ret, struct err *err);
void recipe_done(struct recipe *r); /* zeroed is fine */
