/* sources.h - what a client means by the name of a template: one that a team has built, a snapshot, or a manifest of the server
 * (templates.h), in the order of the contract.
 *
 * With a namespace: what that team has, if it is the asking team's own or public.  Without: the asking team's own templates and
 * snapshots, then templates that all teams know by their bare alias (`base`), then other names of ready-made templates, then
 * ids. */
#pragma once
#include <jansson.h>
#include <stdint.h>

#include "base/buf.h"
#include "model/ids.h"
#include "model/template_ref.h"

struct build_entry;
struct err;
struct keys;
struct snapshot;
struct snapshots;
struct team;
struct template;
struct template_row;
struct template_rows;
struct templates;

struct sources { /* all borrowed */
        struct templates *manifests;
        struct snapshots *snapshots;
        struct template_rows *rows;
        struct keys *keys;
};

struct template_source { /* one of these three; the others are NULL.  Borrowed until the next change */
        const struct template *manifest;
        const struct snapshot *snapshot;
        struct template_row *row;
        struct build_entry *build; /* with row: the ready build that the tag means; NULL: it was not asked for */
};

/* Which template?  The tag is not looked at; but for a snapshot, which has one: that of a wrong tag is not found.
 * ERR_NOT_FOUND: "template 'x' not found".  ERR_DENIED: it is another team's, and not public. */
int sources_find_template(const struct sources *s, const struct template_ref *ref, const struct team *team,
                          struct template_source *ret, struct err *err);
/* Which image?  As above, and ERR_NOT_FOUND: "tag 't' does not exist for template 'x'".  The tag may be the id of a build. */
int sources_find(const struct sources *s, const struct template_ref *ref, const struct team *team,
                 struct template_source *ret, struct err *err);

/* What begins a sandbox, or another build. */
struct source_base {
        char template_id[TEMPLATE_ID_MAX];
        char id[UUID_MAX + 1];              /* of this very state: for keys of caches */
        const char *alias;                  /* borrowed, as all texts; NULL: none */
        char checkpoint[CHECKPOINT_ID_MAX]; /* "": files only */
        char image_of[SANDBOX_ID_MAX];
        bool image_secured;
        json_t *layers;                                                     /* owned */
        json_t *env;                                                        /* borrowed; NULL: none */
        const char *default_user, *default_workdir, *start_cmd, *ready_cmd; /* NULL: none */
        uint32_t cpu_count, memory_mb, disk_mb;
};
int source_base_of(const struct template_source *src, struct source_base *ret); /* -ENOMEM */
void source_base_done(struct source_base *b);                                   /* zeroed is fine */

/* The names that the team can use, ", " between them, as many as fit: for messages. */
void sources_names(const struct sources *s, const struct team *team, struct buf *out);
