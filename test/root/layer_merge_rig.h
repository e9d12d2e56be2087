/* layer_merge_rig.h - layers to play with: real overlay mounts over them, and what one sees through such a mount. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define LAYER "u-%020u"
#define RIG_LAYERS_MAX 48

struct lab {
        char dir[64]; /* <dir>/sealed/<layers, base>, <dir>/upper, <dir>/work, <dir>/m: the mount point */
        int root;     /* fds: dir, dir/sealed */
        int sealed;
};

const char *lab_reason_to_skip(void);
bool lab_open(struct lab *l); /* in a mount namespace of our own */
void lab_close(struct lab *l);

/* Mount layers (names below sealed/, lowest first), read-only or with the upper directory, with the options the engine
 * uses.  An fd of the mount's root; lab_unmount closes it. */
int lab_mount(struct lab *l, const char *const *layers, size_t n, bool is_writable);
void lab_unmount(struct lab *l, int fd);
bool lab_clear(struct lab *l);                  /* no layers any more */
bool lab_seal(struct lab *l, const char *name); /* the upper directory becomes a layer */

/* Everything visible below fd as text, one line per entry, sorted: type, mode, owner, size, time, content, targets,
 * attributes, which names are one file. */
bool lab_view(int fd, struct buf *out);
/* Flatten layers[first..last] into `into`; true when the view of all with those replaced is what it was. */
bool lab_same_when_flat(struct lab *l, const char *const *layers, size_t n, size_t first, size_t last,
                        const char *into);
