/* rootfs.h - a sandbox's file tree: an overlay of its layers, the host's layer (host_layer.h) and its own upper directory.
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
struct host_layer;
struct layer_links;
struct mount_stage;

#define ROOTFS_PARTS_MAX 4u

struct rootfs {
        int mount;                   /* the overlay, detached; -1: there is none */
        int boot_id;                 /* a file to be mounted over the host's boot id, detached; -1: none */
        int parts[ROOTFS_PARTS_MAX]; /* detached mounts that the overlay was made of, only to be closed; -1: none */
};

void rootfs_init(struct rootfs *r);
void rootfs_done(struct rootfs *r); /* waits for RCU, as each close of a detached mount does */

struct rootfs_dirs {
        int layers;               /* where layers are that were no sandbox's */
        struct writable writable; /* the sandbox's own files; plan_create says whether those of before are used again */
        bool is_ahead;            /* they were made ahead: there are none yet */
        struct host_layer *host;  /* borrowed; NULL: none */
};

struct rootfs_owner {
        uint32_t uid_base; /* of the sandbox's uid range */
        int userns;        /* borrowed: maps that range */
        bool has_uuid;     /* mount_ways.h */
        int prepared;      /* by overlay_prepare(), borrowed and used up; 0: nothing is */
};

/* The directories of an overlay, as detached idmapped mounts: one of each directory that holds layers, since a mount of each
 * layer would cost more than the rest of the overlay.  Made where the directories are attached, used in any mount namespace. */
struct rootfs_parts {
        const struct plan_create *plan; /* borrowed: names the layers */
        int layers;                     /* where layers are that were no sandbox's; -1: the plan names none of them */
        int sealed;                     /* the same for sealed layers */
        int host;                       /* the host's layer; -1: none */
        int files;                      /* with the upper directory */
};

void rootfs_parts_init(struct rootfs_parts *p);
void rootfs_parts_done(struct rootfs_parts *p); /* free once they hang on a stage; else waits for RCU */
/* ERR_NOT_FOUND names a missing layer; ERR_NO_SPACE: disk full.  What was made in the storage stays on failure. */
int rootfs_open_parts(struct rootfs_parts *p, const struct rootfs_dirs *d, const struct plan_create *plan,
                      const struct rootfs_owner *o, struct err *err);
/* Make the overlay without a stage: where the kernel takes descriptors (mount_ways.h).  The parts go to *r.  On failure they
 * stay, and *r holds nothing. */
int rootfs_mount_by_fds(struct rootfs *r, struct rootfs_parts *p, const struct rootfs_dirs *d,
                        const struct rootfs_owner *o, struct err *err);
/* Hang them on the stage, and make the overlay.  The stage may be closed after that.  On failure *r holds nothing. */
int rootfs_mount(struct rootfs *r, const struct rootfs_parts *p, const struct mount_stage *s, struct layer_links *links,
                 const struct rootfs_dirs *d, const struct rootfs_owner *o, struct err *err);
/* A boot id of the sandbox's own, over the host's.  A sandbox that is started on files of an earlier start sees by it that
 * it was booted again.  Needs the stage of before.  Without it the sandbox sees the host's, which is no secret.
 * Negative: *r holds nothing any more. */
int rootfs_renew_boot_id(struct rootfs *r, const struct mount_stage *s, uint32_t uid_base, struct err *err);
