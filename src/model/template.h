/* template.h - a template as its manifest describes it.  Pure. */
#pragma once
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "model/ids.h"
#include "model/plan.h"

struct err;

#define TEMPLATE_MANIFEST_MAX (64u << 10) /* bytes of a manifest */

struct template
{
        char id[TEMPLATE_ID_MAX];
        char *alias;                   /* owned */
        char *layers[PLAN_LAYERS_MAX]; /* owned; lowest first */
        size_t layer_count;
        uint32_t cpu_count, memory_mb, disk_mb;
        char *default_user, *default_workdir; /* owned; NULL: envd's own default */
};

struct template_defaults { /* where the manifest does not say */
        uint32_t cpu_count, memory_mb, disk_mb;
};

/* ERR_INVALID names the field.  On success *ret is the caller's, to be given to template_free(). */
int template_decode(const json_t *manifest, const struct template_defaults *defaults, struct template **ret,
                    struct err *err);
struct template *template_free(struct template *t);
