/* ignore.h - .dockerignore: which files of a context are left out.  Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"
#include "base/str.h"
#include "dockerfile/problems.h"

#define IGNORE_MAX (1u << 20) /* bytes of the file */

struct ignore_pattern {
        char *text; /* owned: cleaned, relative */
        bool keeps; /* it began with !: what it matches is not left out */
};

struct ignore { /* zeroed: nothing is left out */
        struct ignore_pattern *at;
        size_t count;
        bool has_keeps;
};

/* Read the file's text.  What is wrong is added to problems; on success *ret is the caller's: ignore_done(). */
int ignore_parse(struct str text, struct ignore *ret, struct problems *problems);
void ignore_done(struct ignore *i);
#define AUTO_IGNORE AUTO(ignore_done)

/* Is this path (relative, clean) left out?  The last pattern that matches it, or a directory above it, decides. */
bool ignore_matches(const struct ignore *i, struct str path);
