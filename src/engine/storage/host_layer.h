/* host_layer.h - the layer that the host adds to each sandbox, between the template's layers and the sandbox's own files: name
 * servers, and certificates that the operator added to the host.
 *
 * It is no part of a snapshot, a template or a paused sandbox: it is made at each start from what the host has then.  A file in
 * it is an ordinary file of the sandbox, which update-ca-certificates or a package may replace.
 *
 *     <data>/host/given/           what the supervisor collects (serve/setup/host_files.h)
 *                 trees-<boot>/    layers made of it; all processes of one boot share them, another boot removes them
 *
 * One layer fits all templates whose directories on the way (/etc, /etc/ssl, ...) have the same owners and modes, and which
 * have the same bundle of certificates: the layer's directories look like the template's, and its bundle is
 * the template's with the operator's certificates added.  Layers never change, so what was found in one is remembered. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/map.h"
#include "model/plan.h"
#include "sys/proc.h"

#define HOST_LAYER_DIR "host"
#define HOST_LAYER_GIVEN "given"
#define HOST_LAYER_FILES "files"
#define HOST_LAYER_EXTRA "extra.pem"
#define HOST_LAYER_BUNDLE "bundle.pem"
/* In sandboxes; envd looks for the first (envd/process/authorities.h). */
#define HOST_LAYER_CA "/etc/sandglass/ca.pem"         /* certificates of the operator's */
#define HOST_LAYER_CA_ALL "/etc/sandglass/bundle.pem" /* the host's authorities and these */

#define HOST_LAYER_DIRS 9u
extern const char *const host_layer_dirs[HOST_LAYER_DIRS]; /* that may be in given/files; each after those above it */

struct host_layer {
        int dir; /* borrowed: <data>/host; -1: there is none */
        char trees[8 + SYS_BOOT_ID_MAX];
        struct map found; /* layer -> what is in it */
};

void host_layer_init(struct host_layer *h, int dir, const char *boot_id);
void host_layer_done(struct host_layer *h);
void host_layer_tidy(const struct host_layer *h); /* remove layers of other boots */

/* Which version of the host's files is given to sandboxes now: another name means other files.  Negative: it is not known. */
#define HOST_LAYER_VERSION_MAX 64
int host_layer_version(int dir /* <data>/host */, char out[HOST_LAYER_VERSION_MAX]);
bool host_layer_version_is_valid(struct str name); /* "given-" and some of [0-9a-z] */

struct host_layer_stack {   /* the layers of a sandbox, lowest first */
        int layers, sealed; /* where they are */
        char *const *names;
        size_t count;
};
/* Its directory, to be opened as a layer; -1: none, which the log explains if it is a failure.  May block. */
int host_layer_open(struct host_layer *h, const struct host_layer_stack *s);
