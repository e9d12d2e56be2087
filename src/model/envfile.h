/* envfile.h - <data>/env: what a client needs to know, as shell exports.  Pure.
 *
 * Written by `sandglass serve` once it is ready, sourced by people, read back by the command line and by the next
 * `serve` (it is the only place where the API key is kept in the clear). */
#pragma once
#include "base/buf.h"
#include "base/str.h"

#define ENVFILE_MAX (16u << 10)

struct envfile {
        char *api_url, *sandbox_url, *domain, *api_key; /* owned; NULL: absent */
        char *ca_certs;  /* NODE_EXTRA_CA_CERTS: the server's own authority; NULL with the operator's certificate */
        char *ca_bundle; /* SSL_CERT_FILE: that and the system's authorities; NULL where the system has none, too */
};

int envfile_format(const struct envfile *e, struct buf *out); /* 0, -E2BIG, -ENOMEM */
/* Lines it does not know are passed over.  -EINVAL for a broken quote, -ENOMEM. */
int envfile_parse(struct str text, struct envfile *ret);
void envfile_done(struct envfile *e);
