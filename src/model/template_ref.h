/* template_ref.h - how a client names a template: [namespace/]alias[:tag] or templateID[:tag].  Pure. */
#pragma once
#include <stdbool.h>

#include "base/str.h"

struct err;

#define TEMPLATE_REF_MAX 128 /* characters of the whole name */

struct template_ref { /* lower case; empty where not given */
        char ns[TEMPLATE_REF_MAX + 1];
        char name[TEMPLATE_REF_MAX + 1]; /* alias or id, never empty */
        char tag[TEMPLATE_REF_MAX + 1];
};

/* Blanks around the text are dropped, letters are lowered.
 * ERR_INVALID: "invalid namespace: X", "invalid template ID: X", "invalid tag: X". */
int template_ref_parse(struct str text, struct template_ref *ret, struct err *err);
/* Does it mean the newest build?  So do "default", "latest" and no tag. */
bool template_ref_is_newest(const struct template_ref *ref);
