/* layer_links.h - short names for the layers of an overlay: symbolic links 0, 1, 2, ... in a directory of the calling process's
 * own, below STAGE_DIR.
 *
 * An overlay takes at most 255 characters for the names of all its layers, and ids of layers are long.  With links one mount of
 * the directory that holds the layers serves for all of them.  A link that leads to the right place already is left alone. */
#pragma once
#include <stddef.h>

#include "model/plan.h"

struct err;

#define LAYER_LINK_MAX 160                 /* characters of a target, with NUL */
#define LAYER_LINKS (PLAN_LAYERS_MAX + 1u) /* with the host's layer */

struct layer_links {
        int dir; /* -1: there are none */
        char targets[LAYER_LINKS][LAYER_LINK_MAX];
};

void layer_links_init(struct layer_links *l);
int layer_links_open(struct layer_links *l,
                     struct err *err);         /* also what a process of the same number left is removed */
void layer_links_close(struct layer_links *l); /* removes the links and their directory */
/* Link number i leads to `place` of the stage at `at`, and there to `name`. */
int layer_links_set(struct layer_links *l, size_t i, const char *at, const char *place, const char *name);
