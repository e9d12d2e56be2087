/* ready_folder.h - the ready-made templates: folders that come with the program, each with an e2b.toml and a Dockerfile. */
#pragma once
#include <stdbool.h>

#include "base/buf.h"
#include "dockerfile/context.h"
#include "dockerfile/dockerfile.h"
#include "dockerfile/e2b_toml.h"

struct err;

struct ready_folder { /* zeroed, with context.dir -1: none */
        struct e2b_toml toml;
        struct dockerfile_build build; /* start and ready commands of e2b.toml are in its request */
        struct context context;
};

/* Where they are: beside the program in the source tree, in share/ when installed.  malloc'd; NULL: nowhere. */
char *ready_folders_dir(void);
bool ready_folder_exists(const char *dir, const char *name);
/* All names, sorted, ", " between them. */
int ready_folder_names(const char *dir, struct buf *out);

/* Read one.  ERR_NOT_FOUND: no such folder.  ERR_INVALID: the message is the first thing that is wrong with it.  On success *ret
 * is the caller's: ready_folder_done(). */
int ready_folder_load(const char *dir, const char *name, const char *architecture, struct ready_folder *ret,
                      struct err *err);
void ready_folder_done(struct ready_folder *f);
#define AUTO_READY_FOLDER AUTO(ready_folder_done)
