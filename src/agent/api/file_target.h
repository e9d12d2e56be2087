/* file_target.h - the query of a request about a file, and that of envd's call for it. */
#pragma once
#include "base/buf.h"

struct err;
struct exchange;

#define FILE_TARGET_MAX (16u << 10)

/* ?path= (required) and ?user=; both the caller's. */
int file_query_decode(const struct exchange *x, char **ret_path, char **ret_user, struct err *err);
/* ?user= alone. */
int file_user_decode(const struct exchange *x, char **ret_user, struct err *err);
/* "<begin><path>&<user_name>=<user>", encoded; user NULL: without it.  -E2BIG, -ENOMEM. */
int file_target(const char *begin, const char *path, const char *user_name, const char *user, struct buf *out);
