/* devfs.h - /dev of all sandboxes: one read-only tmpfs with the harmless devices and envd's binary, made once and cloned.
 *
 * envd is started from the very clone that becomes its sandbox's /dev, so /proc/1/exe names a file the sandbox has
 * (DEVFS_ENVD): nothing outside is mapped, and a checkpoint of the sandbox is complete in itself. */
#pragma once

struct err;

#define DEVFS_ENVD ".envd"

/* A detached mount; the caller's. */
int devfs_make(int envd_binary, int *ret_mount, struct err *err);
