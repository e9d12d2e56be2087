/* overlay.h - an overlay from directories of the calling process's mount namespace, as a detached mount.
 *
 * Layers are given by name, below a directory: kernels before 6.13 take no file descriptors, none takes more than 255
 * characters for all of them, and kernels before 6.15 want every layer attached in the caller's mount namespace. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct err;

#define OVERLAY_NAMES_MAX 255

struct overlay {
        int dir;                  /* names are below it; attached in our mount namespace */
        const char *lower;        /* names, the topmost first, with colons; without an upper directory at least two */
        const char *upper, *work; /* NULL: it is read-only */
        uint32_t uid;   /* overlayfs works on files with this uid and gid: those of the upper directory's owner */
        bool has_uuid;  /* mount_ways.h */
        unsigned attrs; /* MOUNT_ATTR_* */
};

int overlay_mount(const struct overlay *o, int *ret_mount, struct err *err);
