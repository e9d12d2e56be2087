/* templates.h - the templates there are: the manifests of a directory, read again when the directory changed.
 *
 * A manifest is written last and by rename, so a template that is listed is complete, and the directory's own time
 * says whether to look again: one system call per lookup. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/map.h"
#include "model/template.h"
#include "model/template_ref.h"

struct err;

#define TEMPLATES_MAX 4096 /* manifests; more are logged and left out */

struct templates {
        char *dir; /* owned */
        struct template_defaults defaults;
        struct template **all; /* owned, each too */
        size_t count, cap;
        struct map by_name;   /* alias and id -> struct template, borrowed from `all` */
        struct timespec seen; /* the directory's change time at the last scan */
        bool is_fresh;        /* a change since then would show in the directory's time */
};

int templates_init(struct templates *t, const char *dir, const struct template_defaults *defaults, struct err *err);
void templates_done(struct templates *t);
void templates_refresh(struct templates *t); /* scan at the next lookup, whatever the directory's time says */

/* `slug` is the namespace of the asking team.  The template is borrowed until the next call.
 * ERR_NOT_FOUND with the contract's texts. */
int templates_find(struct templates *t, const struct template_ref *ref, const char *slug, const struct template **ret,
                   struct err *err);
bool templates_has(struct templates *t, const char *name); /* an alias or id */
