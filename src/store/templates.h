/* templates.h - rows of templates: their builds and tags, cached steps and images.  Part of store.h, with the same promises. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "model/build/build.h"
#include "model/ids.h"

struct err;
struct store;

/* ---- templates: templates.c ---- */

struct store_template {
        char id[TEMPLATE_ID_MAX];
        int64_t team;
        const char *alias; /* borrowed; NULL: none */
        bool is_public;
        bool is_bare; /* public, and other teams know it by its alias without a namespace */
        int64_t created_ns, updated_ns;
        int64_t spawn_count, last_spawned_ns; /* last_spawned_ns: 0: never */
        uint32_t build_count;                 /* builds so far, also those that are gone: the number of the last one */
};
/* ERR_CONFLICT: the id or the alias is there already. */
int store_template_add(struct store *s, const struct store_template *t, struct err *err);
int store_template_update(struct store *s, const struct store_template *t,
                          struct err *err); /* all but id, team, created_ns */
/* Its tags and then its builds are removed before. */
int store_template_remove(struct store *s, const char *id, struct err *err);
/* Oldest first. */
int store_template_each(struct store *s, int (*each)(const struct store_template *t, void *arg), void *arg,
                        struct err *err);

struct store_tag {
        char template_id[TEMPLATE_ID_MAX];
        const char *tag; /* borrowed */
        char build_id[UUID_MAX];
        int64_t created_ns;
};
int store_tag_put(struct store *s, const struct store_tag *t, struct err *err); /* replaces */
int store_tag_remove(struct store *s, const char *template_id, const char *tag, struct err *err);
int store_tags_remove(struct store *s, const char *template_id, struct err *err); /* all of a template */
int store_tag_each(struct store *s, int (*each)(const struct store_tag *t, void *arg), void *arg, struct err *err);

/* ---- builds: builds.c ---- */

/* ERR_CONFLICT: that id is there already. */
int store_build_add(struct store *s, const struct build *b, struct err *err);
int store_build_update(struct store *s, const struct build *b,
                       struct err *err); /* all but id, template, number, created_ns */
/* The start request, which is kept apart: NULL: there is none any more. */
int store_build_set_request(struct store *s, const char *id, const json_t *request, struct err *err);
/* *ret is the caller's; NULL: none. */
int store_build_request(struct store *s, const char *id, json_t **ret, struct err *err);
int store_build_remove(struct store *s, const char *id, struct err *err); /* fine when it is not there */
/* `each` may move the contents out of b; what is left is released.  Oldest first. */
int store_build_each(struct store *s, int (*each)(struct build *b, void *arg), void *arg, struct err *err);

/* ---- cached steps: layer_cache.c ---- */

struct store_cached { /* one finished step of a build */
        int64_t team; /* 0: for all teams */
        const char *key;
        const char *layer; /* NULL: the step changed no file */
        const json_t *context;
        int64_t used_ns;
};
int store_cached_put(struct store *s, const struct store_cached *c, struct err *err); /* replaces */
/* 1: found; *ret_layer ("": none) and *ret_context are the caller's.  0: there is none. */
int store_cached_get(struct store *s, int64_t team, const char *key, char ret_layer[SEALED_ID_MAX],
                     json_t **ret_context, struct err *err);
int store_cached_used(struct store *s, int64_t team, const char *key, int64_t used_ns, struct err *err);
int store_cached_remove(struct store *s, int64_t team, const char *key, struct err *err);
/* Least recently used first; c->context is NULL here. */
int store_cached_each(struct store *s, int (*each)(const struct store_cached *c, void *arg), void *arg,
                      struct err *err);

/* ---- images: images.c ---- */

struct store_image {
        const char *name;     /* canonical */
        const char *digest;   /* of its manifest */
        const json_t *layers; /* lowest first */
        const json_t *config; /* env, user, workdir, ...: as the puller gives it */
        int64_t bytes, created_ns;
        const char *source; /* "registry", "archive", "recipe" */
};
int store_image_put(struct store *s, const struct store_image *i, struct err *err); /* replaces */
int store_image_remove(struct store *s, const char *name, struct err *err);
/* By name. */
int store_image_each(struct store *s, int (*each)(const struct store_image *i, void *arg), void *arg, struct err *err);
