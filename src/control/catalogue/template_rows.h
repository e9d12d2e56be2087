/* template_rows.h - the templates that teams have built: with their builds and tags, all in memory, as in the store.
 *
 * A template has an id, a team that owns it, at most one alias in that team's namespace, and builds (builds.h).  A tag points to
 * one build that is ready.  Checkpoints and layers of ready builds count in refs.h.
 *
 * Pointers to rows, builds and tags are borrowed until the next change: whoever waits in between keeps the id. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/map.h"
#include "model/build/build.h"
#include "model/template_ref.h"

struct err;
struct refs;
struct store;
struct team;

#define TEMPLATE_ROWS_MAX 65536
#define TEMPLATE_BUILDS_MAX 262144 /* of all templates */
#define TEMPLATE_TAGS_MAX 1000     /* of one template */

struct build_entry {
        struct list node;
        struct template_row *template; /* borrowed */
        struct build build;
};

struct template_tag {
        struct list node;
        char *tag;                 /* owned */
        struct build_entry *build; /* borrowed; READY */
        int64_t created_ns;        /* when the tag was given; for the tags of a build: when the build was requested */
};

struct template_row {
        struct list node;
        char id[TEMPLATE_ID_MAX];
        int64_t team;
        char *alias; /* owned; NULL: none */
        bool is_public, is_bare;
        int64_t created_ns, updated_ns, spawn_count, last_spawned_ns;
        uint32_t build_count; /* so far: the number of the last build */
        struct list builds;   /* of struct build_entry, owned; oldest first */
        struct list tags;     /* of struct template_tag, owned */
};

struct template_rows {
        struct store *store; /* borrowed, as the next */
        struct refs *refs;
        int64_t (*now_ns)(void);
        struct list all; /* of struct template_row, owned; oldest first */
        size_t count, build_count;
        struct map by_id, by_build; /* -> struct template_row, struct build_entry; borrowed */
        const json_t *other_names;  /* {"other name": "alias"}; borrowed; NULL: none */
};

int template_rows_init(struct template_rows *ts, struct store *store, struct refs *refs, int64_t (*now_ns)(void),
                       struct err *err);
void template_rows_done(struct template_rows *ts); /* also zeroed */

struct template_row *template_rows_by_id(const struct template_rows *ts, const char *id); /* or NULL */
struct template_row *template_rows_by_alias(const struct template_rows *ts, int64_t team,
                                            const char *alias); /* or NULL */
/* Of any team: the public one that has the alias without a namespace; or NULL. */
struct template_row *template_rows_by_bare_alias(const struct template_rows *ts, const char *alias);

/* The alias that the name stands for; NULL: it is no other name of a template. */
const char *template_rows_meaning(const struct template_rows *ts, const char *name);

/* A new template of the team, without builds.  alias: NULL: none.  ERR_LIMIT: there are too many. */
int template_rows_add(struct template_rows *ts, int64_t team, const char *alias, struct template_row **ret,
                      struct err *err);
/* With all its builds and tags; t is gone.  Sandboxes that were started from it are not touched. */
int template_rows_remove(struct template_rows *ts, struct template_row *t, struct err *err);
int template_row_publish(struct template_rows *ts, struct template_row *t, bool is_public, bool is_bare,
                         struct err *err);
/* A sandbox was started from it. */
void template_row_spawned(struct template_rows *ts, struct template_row *t);

struct template_tag *template_tag_find(const struct template_row *t, const char *tag); /* or NULL */
/* The tag points to that build from now on. */
int template_tag_put(struct template_rows *ts, struct build_entry *build, const char *tag, int64_t created_ns,
                     struct err *err);
int template_tag_remove(struct template_rows *ts, struct template_row *t, const char *tag, struct err *err);

/* ---- for builds.c ---- */
int template_row_write(struct template_rows *ts, const struct template_row *t, struct err *err);
/* Moves from b on success. */
int template_row_take_build(struct template_rows *ts, struct template_row *t, struct build *b,
                            struct build_entry **ret);
void build_entry_free(struct template_rows *ts, struct build_entry *e);
/* In memory only: no tag is added twice. */
int template_row_take_tag(struct template_row *t, const char *tag, struct build_entry *build, int64_t created_ns);
