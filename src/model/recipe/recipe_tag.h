/* recipe_tag.h - the parts of a reference to a well-known image: name, version, Debian suite, variants.  Pure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct err;

struct suite { /* of Debian; those that the archive still has */
        const char *name;
        uint32_t number;       /* of the release; 0: it has none */
        uint32_t python_minor; /* Python 3.N */
        bool is_base;          /* the template `base` is this suite */
};

extern const struct suite recipe_suites[]; /* oldest first; ends with a NULL name */

struct recipe_tag {
        struct str image;          /* borrowed: all of it, as given, without blanks and what follows them */
        struct str name;           /* "python", "oven/bun": without the host and without "library/" */
        char version[32];          /* digits and dots; "": none is named */
        struct str word;           /* a name in the place of a version: "lts", "jammy"; empty: none */
        const struct suite *suite; /* NULL: none is named */
        bool is_slim, is_alpine;
};

/* ERR_NOT_FOUND: the reference names another registry, a digest, or a variant that is not known. */
int recipe_tag_parse(const char *image, struct recipe_tag *ret, struct err *err);
/* By name, number or role ("bookworm", "12", "12.5", "oldstable"); NULL: unknown. */
const struct suite *recipe_suite_find(struct str text);
const struct suite *recipe_suite_base(void);
/* The first two numbers of "3.11.9"; false: it does not begin with a number.  *minor is UINT32_MAX without a second. */
bool recipe_version(const char *version, uint32_t *major, uint32_t *minor);
