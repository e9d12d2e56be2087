/* file_entry.h - a file as the filesystem service describes it: EntryInfo. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "envd/rpc/users.h"

struct file_entry_options {
        const struct users *users; /* loaded */
        bool is_legacy;            /* an old client that knows name, type and path only */
};

/* The entry of `path`, reported as `shown` (NULL: path).  0; -errno of lstat; -ENOMEM.  *ret_is_dir (may be NULL): a
 * directory, not a link to one. */
int file_entry_read(const char *path, const char *shown, const struct file_entry_options *opt, json_t **ret,
                    bool *ret_is_dir);

#define FILE_ENTRY_MODE_MAX 24
/* "drwxr-xr-x", "Lrwxrwxrwx", "dtrwxrwxrwx", "Dcrw-rw-rw-". */
void file_entry_mode_text(mode_t mode, char out[FILE_ENTRY_MODE_MAX]);
#define FILE_ENTRY_TIME_MAX 40
/* RFC 3339, UTC, with 0, 3, 6 or 9 digits of fraction. */
void file_entry_time_text(struct timespec t, char out[FILE_ENTRY_TIME_MAX]);
