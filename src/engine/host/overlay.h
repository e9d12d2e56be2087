/* overlay.h - an overlay from directories, as a detached mount.
 *
 * Layers are given by name, below a directory: kernels before 6.13 take no file descriptors, none takes more than 255
 * characters for all of them, and kernels before 6.15 want every layer attached in the caller's mount namespace.  Newer
 * kernels take descriptors of directories in detached mounts (mount_ways.h): nothing has to hang anywhere. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define OVERLAY_NAMES_MAX 255

struct overlay_fds {      /* O_PATH */
        const int *lower; /* the topmost first */
        size_t lower_count;
        int upper, work;
};

struct overlay {
        int prepared;                  /* by overlay_prepare(), borrowed and used up; 0: nothing is */
        const struct overlay_fds *fds; /* NULL: by name */
        int dir;                       /* names are below it; attached in our mount namespace */
        const char *lower;        /* names, the topmost first, with colons; without an upper directory at least two */
        const char *upper, *work; /* NULL: it is read-only */
        uint32_t uid;   /* overlayfs works on files with this uid and gid: those of the upper directory's owner */
        bool has_uuid;  /* mount_ways.h */
        unsigned attrs; /* MOUNT_ATTR_* */
};

/* Ahead of time, what does not depend on the layers: an overlay with an upper directory. */
int overlay_prepare(bool has_uuid, int *ret_prepared, struct err *err);
int overlay_mount(const struct overlay *o, int *ret_mount, struct err *err);
