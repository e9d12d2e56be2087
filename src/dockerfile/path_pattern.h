/* path_pattern.h - wildcards in paths, as Docker has them.  Pure. */
#pragma once
#include <stdbool.h>

#include "base/str.h"

/* * stands for anything but /, ? for one sign but /, [a-z] and [^a-z] for one sign, \ takes the next sign as it is.  With
 * `has_double` (.dockerignore), ** stands for any number of directories.  The whole path must match. */
bool path_pattern_matches(struct str pattern, struct str path, bool has_double);
/* Is every [ closed, and something after every \ ? */
bool path_pattern_is_valid(struct str pattern);
bool path_pattern_has_wildcard(struct str pattern);

/* "a/./b//../c" -> "a/c"; "" -> "."; a leading / is dropped.  A .. that leads above the top is dropped, and told by
 * *ret_leaves.  malloc'd; NULL: no memory. */
char *clean_path(struct str path, bool *ret_leaves);
