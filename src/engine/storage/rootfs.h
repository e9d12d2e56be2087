/* rootfs.h - a sandbox's file tree: its layers, its own upper directory, and the mounts made ahead for it, all detached.
 *
 * Layers and upper are idmapped with the sandbox's user namespace: on disk, owners are 0..65535 whatever range the sandbox
 * runs under. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/storage/writable.h"
#include "model/plan.h"

struct err;

struct rootfs {
        int mount; /* the whole tree; -1: there is none */
        int later[PLAN_LAYERS_MAX +
                  1]; /* mounts of layers and storage; to close one is an RCU wait, so they are closed later */
        size_t later_count;
};

void rootfs_init(struct rootfs *r);
void rootfs_done(struct rootfs *r); /* closes all of them: waits */

struct rootfs_dirs {
        int layers;               /* where layers are that were no sandbox's */
        struct writable writable; /* the sandbox's own files; plan_create says whether those of before are used again */
        bool is_ahead;            /* they were made ahead: there are none yet */
};

struct rootfs_mounts {      /* what a sandbox needs besides its files; borrowed */
        uint32_t uid_base;  /* its uid range */
        int userns;         /* for idmapped mounts */
        int proc, sys, dev; /* detached mounts, hung up in its tree */
};

/* The overlay alone, mapped with userns. */
int rootfs_overlay(struct rootfs *r, const struct rootfs_dirs *d, const struct plan_create *p, int userns,
                   uint32_t uid_base, struct err *err);
/* All of it, with /proc, /sys and /dev.  ERR_NOT_FOUND names a missing layer; ERR_NO_SPACE: disk full.
 * On failure *r holds nothing; what was made in the storage stays. */
int rootfs_build(struct rootfs *r, const struct rootfs_dirs *d, const struct plan_create *p,
                 const struct rootfs_mounts *m, struct err *err);
/* After rootfs_build(): a boot id of the sandbox's own over the host's.  A sandbox that is started on files of an earlier
 * start sees by it that it was booted again. */
void rootfs_renew_boot_id(struct rootfs *r, uint32_t uid_base);
