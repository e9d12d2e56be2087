/* host_files.h - <data>/host/given: what the host gives to each sandbox without being part of its files or of a template.
 *
 *     given -> given-<hash>/        by rename: readers see the old content or the new
 *         files/etc/resolv.conf     name servers (model/network/resolvers.h)
 *         files/...                 certificates of the operator's, for OpenSSL, for update-ca-certificates, for programs that
 *                                   have a list of their own; what sudo keeps of the environment
 *         extra.pem, bundle.pem     these certificates; the host's authorities and these.  Absent: there are none
 *
 * The engine makes a layer of it for each kind of template (engine/storage/host_layer.h).  The supervisor looks now and then
 * whether a certificate or a name server has changed. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct conf;
struct err;

struct host_sources {                      /* where the host has them; each list ends with NULL */
        const char *const *ca_dirs;        /* of certificates that the operator added; the first that is there */
        const char *const *system_bundles; /* ca_bundle.h */
        const char *resolv_conf;
};
extern const struct host_sources host_sources_default;

struct host_files {
        const struct conf *conf; /* borrowed */
        const struct host_sources *sources;
        uint64_t used; /* what stat(2) said about all sources when they were read */
        uint64_t seen; /* ... when they were looked at last */
        bool is_full;  /* there was no room: each look tries again */
};

/* Write `given` for the first time.  ERR_INVALID: the setting sandbox_ca names no certificate.  A file of the host's own that
 * cannot be used is logged and left out.  On a full disk it is written later. */
int host_files_init(struct host_files *h, const struct conf *c, const struct host_sources *s, struct err *err);
/* Write it anew if two looks in a row found the same change.  A failure is logged, and what is there stays. */
void host_files_look(struct host_files *h);
