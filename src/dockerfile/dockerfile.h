/* dockerfile.h - a Dockerfile as the request that starts a build of a template.  Pure: sources of COPY are found later, by
 * context.h.
 *
 * Docker's meaning is kept where it can be.  Everything else is a problem with its line:
 *   - a stage begins with `USER root` and `WORKDIR /`, and the last stage ends with `USER user` and `WORKDIR /home/user` unless
 *     the Dockerfile says otherwise, as sandboxes have it;
 *   - RUN uses /bin/sh -c, or what SHELL says; values of ARG are in its environment only;
 *   - variables that the base image sets are known to the server only: ENV may use them, other instructions may not;
 *   - stages that the last one does not need are left out. */
#pragma once
#include <jansson.h>

#include "base/str.h"
#include "dockerfile/problems.h"

struct dockerfile_options {
        const json_t *build_args; /* borrowed: {name: text}; NULL: none */
        const char *architecture; /* "amd64": what TARGETARCH and --platform mean */
};

enum dockerfile_copy_kind {
        DOCKERFILE_COPY,     /* of files of the context */
        DOCKERFILE_ADD,      /* the same, and an archive is unpacked */
        DOCKERFILE_DOCUMENT, /* a file with `content` */
};

struct dockerfile_copy { /* a step that lacks its filesHash */
        enum dockerfile_copy_kind kind;
        unsigned line;
        json_t *step;  /* owned reference: it is in the request, and may be changed there */
        char *src;     /* owned: as written, variables replaced; of a document its name */
        char *dest;    /* owned */
        char *content; /* owned; NULL: no document */
        size_t stage;  /* of the Dockerfile, from 0 */
};

struct dockerfile_build { /* zeroed: none */
        json_t *request;  /* owned: fromImage, steps, stages, startCmd, readyCmd; as the body of the start request */
        json_t *lines;    /* owned: for each step of the request (not of its stages) its line; 0: none */
        struct dockerfile_copy *copies; /* owned */
        size_t copy_count;
};

/* On success *ret is the caller's: dockerfile_build_done().  -EINVAL: problems has errors. */
int dockerfile_convert(struct str text, const struct dockerfile_options *opt, struct dockerfile_build *ret,
                       struct problems *problems);
void dockerfile_build_done(struct dockerfile_build *b);
#define AUTO_DOCKERFILE_BUILD AUTO(dockerfile_build_done)
