/* cert.h - making X.509 certificates with EC P-256 keys: the local CA, what it issues, and names asked for by SNI. */
#pragma once
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <stdbool.h>

enum cert_kind {
        CERT_ROOT,   /* may sign anything; has itself as issuer */
        CERT_ISSUER, /* may sign leaves within `names` only */
        CERT_LEAF,   /* a server named `names` */
};

struct cert_spec {
        enum cert_kind kind;
        const char *common_name;
        const char *names; /* OpenSSL's list: "DNS:a,IP:::1" (leaf), "permitted;DNS:a" (issuer), NULL (root) */
        long days;
        EVP_PKEY *key;        /* borrowed: the subject's */
        X509 *issuer;         /* borrowed; NULL: itself */
        EVP_PKEY *issuer_key; /* borrowed */
};

/* NULL when OpenSSL fails (out of memory, or names it does not understand). */
X509 *cert_make(const struct cert_spec *spec);

/* Lower-case letters, digits, '-', '.', no empty label, at most 253 bytes: may stand in `names`. */
bool cert_is_plain_name(const char *name);

/* Does the certificate say exactly this DNS name (wildcards compared as text)? */
bool cert_has_name(const X509 *cert, const char *name);
/* Is `name` one level below a wildcard of the certificate, "a.localhost" for "*.localhost"?  Verifiers that refuse
 * wildcards right below a top-level name do not think so. */
bool cert_has_wildcard_for(const X509 *cert, const char *name);
