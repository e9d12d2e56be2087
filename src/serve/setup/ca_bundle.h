/* ca_bundle.h - <data>/ca/bundle.pem: the certificate authorities of the system and the server's own in one file.
 *
 * For programs that read SSL_CERT_FILE: the Python client (httpx), curl, OpenSSL, Go.  They trust what that file holds instead
 * of what they would trust otherwise, so a file with the server's own authority alone would cut them off from all others. */
#pragma once
#include <stdbool.h>

struct buf;
struct err;

#define CA_BUNDLE_SYSTEM_MAX (4u << 20) /* Debian's has 220 KiB */

extern const char *const ca_bundle_systems[]; /* where distributions keep the system's authorities; ends with NULL */

/* Write <dir>/bundle.pem: the first of `systems` that holds a certificate, then <dir>/ca.pem unless that is part of it.  World
 * readable, by rename, and only when the content differs.  ERR_NOT_FOUND: none of `systems` holds a certificate; a bundle of
 * an earlier start is removed then.  After other errors it is as it was. */
int ca_bundle_renew(const char *dir, const char *const systems[], struct err *err);
/* The first of `systems` that can be read and holds a certificate; distributions have links there.  false: none. */
bool ca_bundle_read_system(const char *const systems[], struct buf *out);
