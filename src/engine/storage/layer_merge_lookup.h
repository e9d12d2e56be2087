/* layer_merge_lookup.h - which directories of a group of layers make up one directory of the merged view.
 *
 * The same steps as overlayfs takes (fs/overlayfs/namei.c) when it looks up a name, but only within the group: what it
 * would look for below the group's lowest layer is left to the caller as the lookup's outcome. */
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/plan.h"

#define LOOKUP_PATH_MAX (64u << 10)

struct stack { /* directories that are merged, topmost first */
        struct stack_dir {
                int fd;        /* owned */
                uint8_t layer; /* 0: the group's lowest */
        } dirs[PLAN_LAYERS_MAX];
        size_t n;
};

void stack_done(struct stack *s);

enum lookup_end {
        LOOKUP_STOPS, /* nothing below the group is looked at */
        LOOKUP_NAME,  /* lookup_path() beside the parent's counterpart */
        LOOKUP_PATH,  /* lookup_path() from the root */
};

struct lookup {
        const int *roots;  /* borrowed: of the layers, lowest first */
        char *path, *next; /* owned, LOOKUP_PATH_MAX + 1 each: what to look for, and room for a new one */
        char redirect[XATTR_SIZE_MAX + 1]; /* last one read */
        bool is_stopped;
};

int lookup_init(struct lookup *l, const int *roots);
void lookup_done(struct lookup *l);

/* `name`, which is a directory in parent->dirs[first] and absent from those above.  0: *ret (the caller's) has one or more
 * directories.  -ENAMETOOLONG: redirects add up to too long a path; -EBADMSG: one is not well-formed. */
int lookup_directory(struct lookup *l, const struct stack *parent, size_t first, const char *name, struct stack *ret,
                     enum lookup_end *ret_end);
static inline const char *lookup_path(const struct lookup *l)
{
        return l->path;
}
