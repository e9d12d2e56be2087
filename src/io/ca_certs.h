/* ca_certs.h - certificates in files of PEM or DER, one by one: checked, written anew, and named as OpenSSL finds them. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define CA_CERTS_MAX 256u
#define CA_CERT_MARK_MAX 17

struct ca_cert {
        char *pem;                   /* owned: the certificate alone, a text that ends with a newline */
        uint32_t name_hash;          /* of its subject: files "<8 hex digits>.<0..>" in a directory of OpenSSL's */
        char mark[CA_CERT_MARK_MAX]; /* hex: tells it from all others */
};

struct ca_certs {
        struct ca_cert list[CA_CERTS_MAX];
        size_t count;
};

void ca_certs_done(struct ca_certs *c); /* zeroed is fine */
/* Add each certificate of a file's content, unless it is there already: the number of certificates in it.  Text around them is
 * left out.  -EINVAL: no certificate in it; -E2BIG: too many; -ENOMEM. */
int ca_certs_add(struct ca_certs *c, struct str content);
