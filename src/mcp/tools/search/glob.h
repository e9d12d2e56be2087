/* glob.h - patterns for paths, as in .gitignore and shells.  No I/O.
 *
 * "*" and "?" stay inside a part of a path, "**" as a whole part stands for any number of parts, "[a-z]" and "[!a-z]" for one character,
 * "{a,b}" for each of its texts; "\" takes the next character as it is.  A pattern without "/" is for the last part of a path, others
 * are for all of it.  "!" before a pattern turns it round.  Time: a product of the two lengths. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct err;

#define GLOB_BYTES_MAX 1024u
#define GLOB_TEXTS_MAX 256u /* that braces stand for */

struct glob {
        char *texts[GLOB_TEXTS_MAX]; /* owned: without braces */
        size_t count;
        bool is_inverted, is_for_names;
};

/* ERR_INVALID: too long, too many texts, a brace that is not closed.  To be given to glob_done() in any case. */
int glob_init(struct glob *g, const char *pattern, struct err *err);
void glob_done(struct glob *g);
/* path: relative, "./" in front does not count. */
bool glob_matches(const struct glob *g, struct str path);
