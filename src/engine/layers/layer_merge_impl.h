/* layer_merge_impl.h - between the files of layer_merge.h: overlayfs's marks, and making entries. */
#pragma once
#include <stdbool.h>
#include <sys/stat.h>

#include "engine/storage/entry_copy.h"
#include "engine/layers/layer_merge.h"

#define OVERLAY_OPAQUE "trusted.overlay.opaque"
#define OVERLAY_REDIRECT "trusted.overlay.redirect"
#define OVERLAY_ORIGIN "trusted.overlay.origin"
#define OVERLAY_WHITEOUT "trusted.overlay.whiteout"

#define LAYER_MERGE_COPIES 16u

/* ---- layer_merge_entry.c: everything that is not a directory */

struct merged_entries {
        int whiteout; /* O_PATH of a whiteout that can take more links; -1: none */
        struct {      /* files that were copied: further names link to the copy */
                ino_t of;
                int fd; /* O_PATH; -1: free */
        } copies[LAYER_MERGE_COPIES];
        unsigned next_copy;
        struct layer_merge_count *count;
};

void entries_init(struct merged_entries *e, struct layer_merge_count *count);
void entries_done(struct merged_entries *e);
int entries_whiteout(struct merged_entries *e, int out, const char *name);
/* A hard link to src/name, or a copy of it. */
int entries_link(struct merged_entries *e, int src, int out, const char *name, const struct stat *st);
/* 1: a device 0:0, or an empty file with the mark.  0: any other file. */
int is_whiteout(int dir, const char *name, const struct stat *st);
