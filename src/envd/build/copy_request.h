/* copy_request.h - what a COPY says, with every name resolved in the sandbox. */
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct copy_request {
        char src[PATH_MAX];  /* the name in the archive; "": all of it */
        bool is_directory;   /* src had a pattern and was cut to the directory before it, or is all of the archive */
        char dest[PATH_MAX]; /* relative to "/", cleaned */
        bool is_into;        /* dest was written with a slash at its end: it is a directory */
        uint32_t uid, gid;
        bool has_mode;
        uint32_t mode;
};

/* From the query of a request; default_user: whose files they are if the query names no user.  0, or negative with *err. */
int copy_request_decode(struct str query, const char *default_user, struct copy_request *ret, struct err *err);

/* Cut src to what comes before the first part with a pattern; true: there was one. */
bool copy_cut_pattern(char *src);
/* An absolute path without ".", ".." and doubled slashes, in place; it never grows. */
void copy_clean_path(char *path);
