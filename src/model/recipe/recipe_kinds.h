/* recipe_kinds.h - one function for each kind of well-known image, and what they have in common.  Pure. */
#pragma once
#include "base/auto.h"
#include "model/recipe/recipe.h"
#include "model/recipe/recipe_tag.h"

struct err;

/* Each fills in a zeroed recipe.  ERR_NOT_FOUND: no recipe for this tag.  ERR_LIMIT: out of memory. */
int recipe_debian(const struct recipe_tag *tag, struct recipe *r, struct err *err);
int recipe_ubuntu(const struct recipe_tag *tag, struct recipe *r, struct err *err);
int recipe_python(const struct recipe_tag *tag, struct recipe *r, struct err *err);
int recipe_node(const struct recipe_tag *tag, struct recipe *r, struct err *err);
int recipe_bun(const struct recipe_tag *tag, struct recipe *r, struct err *err);
int recipe_deno(const struct recipe_tag *tag, struct recipe *r, struct err *err);
int recipe_e2b_base(const struct recipe_tag *tag, struct recipe *r, struct err *err);

/* Base the recipe on a suite: on the template `base`, or on the image "debian:<suite>". */
void recipe_use_suite(struct recipe *r, const struct suite *suite);
/* Add a step that runs a command as root. */
int recipe_add_run(struct recipe *r, struct err *err, const char *fmt, ...) PRINTF(3, 4);
int recipe_add_env(struct recipe *r, const char *name, const char *value, struct err *err);
void recipe_note(struct recipe *r, const char *fmt, ...) PRINTF(2, 3);
void recipe_note_more(struct recipe *r, const char *fmt, ...) PRINTF(2, 3); /* "; " and the text */
/* What a tag promises and Debian's packages do not hold: Alpine, another suite than `used`. */
void recipe_note_variants(struct recipe *r, const struct recipe_tag *tag, const struct suite *used);
