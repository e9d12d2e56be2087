/* ready_folder.h - the ready-made templates: folders that come with the program, each with an e2b.toml and a Dockerfile.
 *
 * A folder without a Dockerfile is another name of the template that its e2b.toml names.  A link in a folder may lead to a program
 * of ours, which is copied like a file of the folder. */
#pragma once
#include <jansson.h>
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
/* The template that a folder is another name of.  malloc'd; NULL: the folder is a template of its own, or there is none. */
char *ready_folder_meaning(const char *dir, const char *name);
/* All of these: {"other name": "name of a template"}.  NULL: out of memory. */
json_t *ready_folder_other_names(const char *dir);

/* Read one.  ERR_NOT_FOUND: no such folder.  ERR_INVALID: the message is the first thing that is wrong with it.  On success *ret
 * is the caller's: ready_folder_done(). */
int ready_folder_load(const char *dir, const char *name, const char *architecture, struct ready_folder *ret,
                      struct err *err);
void ready_folder_done(struct ready_folder *f);
#define AUTO_READY_FOLDER AUTO(ready_folder_done)
