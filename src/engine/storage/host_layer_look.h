/* host_layer_look.h - what the layers of a template have in the places where host_layer.h adds something. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/sha256.h"

enum host_dir { /* as in host_layer_dirs; each after those above it */
                HOST_ETC,
                HOST_SANDGLASS,
                HOST_SSL,
                HOST_CERTS,
                HOST_SUDOERS,
                HOST_USR,
                HOST_LOCAL,
                HOST_SHARE,
                HOST_AUTHORITIES,
                HOST_DIRS,
};

enum host_kind {
        HOST_NONE,
        HOST_DIR,
        HOST_FILE,
        HOST_GONE,  /* a whiteout: what the layers below have is not there */
        HOST_OTHER, /* a link, a device, ...: to be left alone */
};

struct host_entry {
        uint32_t kind; /* enum host_kind */
        uint32_t mode, uid, gid;
        uint32_t is_opaque; /* HOST_DIR: what the layers below have in it is not there */
};

struct host_found { /* in one layer */
        struct host_entry dirs[HOST_DIRS];
        struct host_entry bundle;   /* HOST_BUNDLE_PATH */
        uint8_t digest[SHA256_LEN]; /* of its content, if it is HOST_FILE */
};

struct host_view { /* in all of them; kinds are NONE, DIR, FILE, OTHER; below something OTHER all is OTHER */
        struct host_entry dirs[HOST_DIRS];
        struct host_entry bundle;
        size_t bundle_layer; /* HOST_FILE: which layer has it */
        uint8_t digest[SHA256_LEN];
};

#define HOST_BUNDLE_PATH "etc/ssl/certs/ca-certificates.crt"
#define HOST_BUNDLE_MAX (4u << 20) /* a larger one is left alone */

/* layer: its directory.  0 or negative errno. */
int host_look(int layer, struct host_found *ret);
/* found: of each layer, lowest first.  Pure. */
void host_view_merge(struct host_view *v, const struct host_found *const *found, size_t count);
