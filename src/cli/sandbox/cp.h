/* cp.h - what the files of `sandglass cp` share. */
#pragma once
#include <stdbool.h>

#include "cli/api.h"

struct copying {
        struct cli_api *api;               /* borrowed */
        const struct api_sandbox *sandbox; /* borrowed */
        const char *user;                  /* borrowed; NULL: the sandbox's default */
        struct sg_sandbox *box;            /* borrowed */
        struct err *err;
};

/* cp_tree.c: the contents of one directory become those of another, which is made if it is not there; by tar on both sides, so
 * that modes and links are kept. */
int copy_tree_up(struct copying *c, const char *from, const char *to);
int copy_tree_down(struct copying *c, const char *from, const char *to);
/* A short command in the sandbox, without output of ours. */
int run_in_sandbox(struct copying *c, char *const *argv);
