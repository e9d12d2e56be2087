/* mount_stage.h - directories in a mount namespace of the engine's own, on which mounts hang for a moment.
 *
 * Kernels before 6.15 take a mount as a layer of an overlay, or as what is copied, only while the mount is attached in the
 * caller's mount namespace.  So the engine and its helpers live in a copy of the host's mount namespace.  What is unmounted
 * on the host goes there, too; what is mounted there is not seen on the host.
 *
 *     /run/sandglass/mounts/   a tmpfs, in that namespace only
 *             names/           empty directories: STAGE_FILES, STAGE_LAYERS, STAGE_SEALED, and two for trials
 *             links/           short names of layers, a directory for each process that makes overlays (layer_links.h)
 *             disk/, job/      where a copy of names/ hangs, with mounts on its directories, while somebody makes an overlay
 *             devices/         devices.h, for sandboxes that are restored
 *             devices_kept/    the same with an older envd */
#pragma once

struct err;

#define STAGE_DIR "/run/sandglass/mounts"
#define STAGE_DISK STAGE_DIR "/disk"
#define STAGE_JOB STAGE_DIR "/job" /* for processes that left the engine's namespace for one of their own */
#define STAGE_DEVICES STAGE_DIR "/devices"
#define STAGE_DEVICES_KEPT STAGE_DIR "/devices_kept"
#define STAGE_LINKS STAGE_DIR "/links"
#define STAGE_FILES "w"
#define STAGE_LAYERS "l" /* the directory of layers that were no sandbox's */
#define STAGE_SEALED "s" /* the directory of sealed layers */
#define STAGE_HOST "h"   /* the host's layer */
#define STAGE_SPARE_0 "0"
#define STAGE_SPARE_1 "1"

/* Leave the host's mount namespace for good.  Descriptors from before are of no use as sources of mounts. */
int mount_stage_enter(struct err *err);
/* Leave the current one for a copy that goes with the calling process. */
int mount_stage_leave(struct err *err);

struct mount_stage {
        const char *at; /* NULL: closed */
        int dir;        /* with the names */
};

void mount_stage_init(struct mount_stage *s);
int mount_stage_open(struct mount_stage *s, const char *at, struct err *err);
int mount_stage_hang(const struct mount_stage *s, int mount, const char *name); /* the descriptor stays the caller's */
/* Everything that hangs there is detached: waits for RCU, once for all of it. */
void mount_stage_close(struct mount_stage *s);
void mount_stage_clear(const char *at); /* what a process left there that died */
