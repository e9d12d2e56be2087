/* devices.h - /dev of all sandboxes: one read-only tmpfs with the harmless devices and envd's binary, made once and cloned.
 *
 * envd is started from the very clone that becomes its sandbox's /dev, so /proc/1/exe names a file the sandbox has
 * (DEVICES_ENVD): nothing outside is mapped, and a checkpoint of the sandbox is complete in itself. */
#pragma once

struct err;

#define DEVICES_ENVD ".envd"

/* A detached mount; the caller's. */
int devices_make(int envd_binary, int *ret_mount, struct err *err);
