/* rootfs.h - a sandbox's file tree: its layers, its own upper directory, and the mounts of its cell, all detached.
 *
 * Layers and upper are idmapped with the cell's user namespace: on disk, owners are 0..65535 whatever range the sandbox
 * runs under. */
#pragma once
#include <stddef.h>

#include "engine/namespace/cell.h"
#include "model/plan.h"

struct err;

struct rootfs {
        int mount;                      /* the whole tree; -1: none */
        int later[PLAN_LAYERS_MAX + 1]; /* helper mounts; closing each is an RCU wait, so not while someone waits */
        size_t later_count;
};

void rootfs_init(struct rootfs *r);
void rootfs_done(struct rootfs *r); /* closes all of it: waits */

struct rootfs_dirs {
        int layers, sealed; /* where layers are */
        int sandbox;        /* the sandbox's own, where u/ and w/ are made; a u/ that is there is used again */
        int trash;
        bool is_ahead; /* u/ and w/ were made ahead, and nobody used them */
};

int rootfs_make_ahead(int dir); /* u/ and w/ in a new directory */

/* The overlay alone, mapped with userns. */
int rootfs_overlay(struct rootfs *r, const struct rootfs_dirs *d, const struct plan_create *p, int userns,
                   uint32_t uid_base, struct err *err);
/* All of it, with the mounts of the cell.  ERR_NOT_FOUND names a missing layer; ERR_NO_SPACE: disk full.
 * On failure *r holds nothing; what was made below dir stays. */
int rootfs_build(struct rootfs *r, const struct rootfs_dirs *d, const struct plan_create *p, const struct cell *c,
                 struct err *err);
/* A boot id of its own over the host's, after rootfs_build(): a sandbox started on files that another boot left can tell. */
void rootfs_renew_boot_id(struct rootfs *r, uint32_t uid_base);
