/* build_chain.h - what a stage of a build has become so far: its layers, the key that stands for all of it, and the context that
 * is carried from step to step. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "model/build/build_key.h"

struct build_chain {
        json_t *layers; /* owned; lowest first; NULL: there is nothing yet */
        struct build_key key;
        json_t *env;                 /* owned: an object */
        char *user;                  /* owned; NULL: root */
        char *workdir;               /* owned; absolute; NULL: the home directory of the user */
        char *start_cmd, *ready_cmd; /* owned: of the template it began with; NULL: none */
        bool is_forced;              /* a step was not to be taken from the cache, so no later one is */
};

void build_chain_done(struct build_chain *c);                                  /* zeroed is fine */
int build_chain_copy(const struct build_chain *from, struct build_chain *ret); /* -ENOMEM */
int build_chain_add_layer(struct build_chain *c, const char *layer);           /* -ENOMEM */
int build_chain_set_text(char **to, const char *text);                         /* -ENOMEM */
json_t *build_chain_context(const struct build_chain *c); /* {"env","user","workdir"}; new; NULL: no memory */
int build_chain_set_context(struct build_chain *c, const json_t *context); /* -ENOMEM, -EINVAL */
const char *build_chain_user(const struct build_chain *c);                 /* never NULL */
/* The path of a WORKDIR or COPY: absolute as it is, else below the working directory ("/" where there is none).  The caller's;
 * NULL: no memory. */
char *build_chain_path(const struct build_chain *c, const char *path);
