/* paths.h - how a path of a request becomes one of the file system, and making the directories on the way to it. */
#pragma once
#include <stdbool.h>

#include "envd/rpc/fault.h"
#include "envd/rpc/users.h"

/* Lexically shortest form of a path ("/a/./b//../c" is "/a/c"); malloc'd, NULL out of memory. */
char *path_clean(struct str path);
char *path_join(const char *dir, const char *rest); /* cleaned; malloc'd */
struct str path_base(const char *path);             /* the last component; "/" for the root, "." for "" */

/* Empty: the working directory (or home when workdir is NULL).  "~", "~/x": below home.  Absolute: as it is.
 * Relative: below home, cleaned.  0 and *ret malloc'd, or -1 with invalid_argument. */
int path_expand(const char *path, const struct user *u, const char *workdir, char **ret, struct fault *f);

/* Make the directories of path that are missing, each 0755 and given to the user (unless keep_owner).
 * 0; -1 with internal, and for an ancestor that is a file the text "path is a file: /x". */
int dirs_ensure(const char *path, const struct user *u, bool keep_owner, struct fault *f);
/* The same for the parent directory of path. */
int dirs_ensure_parent(const char *path, const struct user *u, bool keep_owner, struct fault *f);
