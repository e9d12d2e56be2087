/* layer_merge_lookup.h - finds the directories of a group of layers that make up one directory of the merged view.
 *
 * The same steps as overlayfs takes (fs/overlayfs/namei.c) when it looks up a name, but only within the group.  Where overlayfs
 * would go on below the group's lowest layer, the lookup ends, and says how overlayfs has to go on (enum lookup_end). */
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/plan.h"

#define LOOKUP_PATH_MAX (64u << 10)

struct dir_stack { /* directories that are merged, topmost first */
        struct stack_dir {
                int fd;        /* owned */
                uint8_t layer; /* 0: the group's lowest */
        } dirs[PLAN_LAYERS_MAX];
        size_t n;
};

void dir_stack_close(struct dir_stack *s);

enum lookup_end {
        LOOKUP_STOPS, /* overlayfs looks at nothing below the group */
        LOOKUP_NAME,  /* overlayfs looks for lookup_path() in the parent directory below */
        LOOKUP_PATH,  /* overlayfs looks for lookup_path() from the root */
};

struct layer_lookup {
        const int *roots;  /* borrowed: of the layers, lowest first */
        char *path, *next; /* owned, LOOKUP_PATH_MAX + 1 each: what to look for, and room for the next */
        char redirect[XATTR_SIZE_MAX + 1]; /* last one read */
        bool is_stopped;
};

int lookup_init(struct layer_lookup *l, const int *roots);
void lookup_done(struct layer_lookup *l);

/* Look up `name`, which is a directory in parent->dirs[first] and is not there in those above.  0: *ret (the caller's) has one
 * or more directories.  -ENAMETOOLONG: redirects add up to too long a path; -EBADMSG: one is not well-formed. */
int lookup_directory(struct layer_lookup *l, const struct dir_stack *parent, size_t first, const char *name,
                     struct dir_stack *ret, enum lookup_end *ret_end);
static inline const char *lookup_path(const struct layer_lookup *l)
{
        return l->path;
}
