/* sandbox_files.h - small files that must not be read by others, written into a sandbox: with their mode from the first byte on.
 *
 * They go as one archive to envd (/sandglass/copy), which unpacks it for the sandbox's default user. */
#pragma once
#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"

struct exchange;
struct ask_answer;
struct err;

#define SANDBOX_FILES_MAX (16u << 20)

struct sandbox_files {
        struct buf tar;
        size_t count;
};

void sandbox_files_init(struct sandbox_files *f);
void sandbox_files_done(struct sandbox_files *f);
/* path: relative, of parts that are neither empty nor "." nor ".."; missing directories on the way get 0700. */
int sandbox_files_add(struct sandbox_files *f, struct str path, unsigned mode, struct str content, struct err *err);
/* Write them below dest ("/", or "." for the home of the default user); 200 when all are there. */
void sandbox_files_write(struct exchange *x, struct sandbox_files *f, const char *dest,
                         void (*on_answer)(struct exchange *x, const struct ask_answer *a),
                         void (*on_failure)(struct exchange *x, const struct err *why));
