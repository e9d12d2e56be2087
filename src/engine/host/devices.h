/* devices.h - /dev of sandboxes: the harmless devices, and envd's binary.
 *
 * One tmpfs holds envd's binary, and for each uid range a directory with devices that its root owns.  /dev of a sandbox is a
 * read-only overlay of the two.  So memory of the binary is shared, and the files are not: overlayfs gives every mount inodes
 * of its own, and a lock on /dev/null in one sandbox is not seen in another.
 *
 * envd is started from the very mount that becomes its sandbox's /dev, so /proc/1/exe names a file the sandbox has
 * (DEVICES_ENVD): nothing outside is mapped, and a checkpoint of the sandbox is complete in itself. */
#pragma once
#include <stdint.h>

struct err;

#define DEVICES_ENVD ".envd"

struct devices {
        const char *at; /* a directory on which the tmpfs hangs, read-only, in the caller's mount namespace; borrowed */
        int files;      /* the tmpfs, to be written to; -1: there is none */
};

int devices_open(struct devices *d, int envd_binary, const char *at, struct err *err);
void devices_close(struct devices *d); /* the mount at `at` goes with its namespace */
/* /dev of a sandbox with this uid range: a detached mount, the caller's. */
int devices_mount(const struct devices *d, uint32_t uid_base, int *ret_mount, struct err *err);
