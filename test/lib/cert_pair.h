/* cert_pair.h - a certificate that is its own authority, and its key, as files for tests. */
#pragma once
#include <openssl/pem.h>
#include <stdbool.h>
#include <stdio.h>

#include "io/cert.h"

/* names: as in cert.h, e.g. "DNS:*.example.test". */
static bool cert_pair_write(const char *cert_path, const char *key_path, const char *names, long days)
{
        EVP_PKEY *key = EVP_EC_gen("P-256");
        X509 *cert = cert_make(&(struct cert_spec){.kind = CERT_LEAF,
                                                   .common_name = "An authority",
                                                   .names = names,
                                                   .days = days,
                                                   .key = key,
                                                   .issuer_key = key});
        FILE *c = fopen(cert_path, "we"), *k = fopen(key_path, "we");
        bool ok = cert && c && k && PEM_write_X509(c, cert) == 1 &&
                  PEM_write_PrivateKey(k, key, NULL, NULL, 0, NULL, NULL) == 1;

        if (c)
                (void)fclose(c);
        if (k)
                (void)fclose(k);
        X509_free(cert);
        EVP_PKEY_free(key);
        return ok;
}
