/* tls.h - TLS contexts: a server's certificate, key, ALPN; whom a client trusts; and making the local CA.
 *
 * The only code besides stream.c that includes OpenSSL's SSL headers. */
#pragma once
#include <stddef.h>

struct err;
struct tls_context; /* opaque */

struct tls_options {
        const char *cert_pem_path; /* chain, leaf first */
        const char *key_pem_path;
        const char *const *alpn; /* NULL-terminated, in order of preference, e.g. {"http/1.1", NULL} */
};
int tls_context_create(const struct tls_options *opt, struct tls_context **ret, struct err *err);
/* For stream_init_client(): speaks HTTP/1.1 with servers whose certificate one of the authorities in the file signed.
 * ca_pem_path NULL: the system's authorities (or SSL_CERT_FILE, SSL_CERT_DIR). */
int tls_client_context_create(const char *ca_pem_path, struct tls_context **ret, struct err *err);
/* Trust the authorities in this file, too.  Before streams are begun with it. */
int tls_client_context_trust(struct tls_context *t, const char *ca_pem_path, struct err *err);
/* Streams that were begun with it go on. */
struct tls_context *tls_context_free(struct tls_context *t);

/* Make <dir>/ca.pem, ca.key, cert.pem, key.pem unless all are there and still valid for `domain` (no port) for 30 days:
 * an EC P-256 CA and a leaf for domain, *.domain, localhost, 127.0.0.1, ::1.  Keys are 0600.  Files are written to
 * temporary names and renamed.  An existing CA is kept when only the leaf must be made anew.  On a full disk
 * what is there does as long as it is valid at all. */
int tls_local_ca(const char *dir, const char *domain, struct err *err);
