#include "io/ca_certs.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

void ca_certs_done(struct ca_certs *c)
{
        while (c->count > 0)
                free(c->list[--c->count].pem);
}

static char *write_pem(X509 *cert)
{
        BIO *out = BIO_new(BIO_s_mem());
        char *bytes, *pem = NULL;
        long n;

        if (out && PEM_write_bio_X509(out, cert) == 1) {
                n = BIO_get_mem_data(out, &bytes);
                pem = n > 0 ? strndup(bytes, (size_t)n) : NULL;
        }
        BIO_free(out);
        return pem;
}

static int add_cert(struct ca_certs *c, X509 *cert)
{
        struct ca_cert one = {.name_hash = (uint32_t)X509_NAME_hash_ex(X509_get_subject_name(cert), NULL, NULL, NULL)};
        unsigned char digest[EVP_MAX_MD_SIZE];
        unsigned len = 0;

        if (X509_digest(cert, EVP_sha256(), digest, &len) != 1 || len < (CA_CERT_MARK_MAX - 1) / 2)
                return -EINVAL;
        hex_encode(digest, (CA_CERT_MARK_MAX - 1) / 2, one.mark);
        for (size_t i = 0; i < c->count; i++)
                if (strcmp(c->list[i].mark, one.mark) == 0)
                        return 0;
        if (c->count == CA_CERTS_MAX)
                return -E2BIG;
        one.pem = write_pem(cert);
        if (!one.pem)
                return -ENOMEM;
        c->list[c->count++] = one;
        return 0;
}

static int add_der(struct ca_certs *c, struct str content)
{
        const unsigned char *at = (const unsigned char *)content.p;
        X509 *cert = d2i_X509(NULL, &at, (long)content.n);
        int r = cert ? add_cert(c, cert) : -EINVAL;

        X509_free(cert);
        return r < 0 ? r : 1;
}

int ca_certs_add(struct ca_certs *c, struct str content)
{
        BIO *in = content.n > 0 && content.n < INT_MAX ? BIO_new_mem_buf(content.p, (int)content.n) : NULL;
        int count = 0, r = 0;
        X509 *cert;

        while (in && r == 0 && (cert = PEM_read_bio_X509_AUX(in, NULL, NULL, NULL))) {
                r = add_cert(c, cert);
                count += r == 0;
                X509_free(cert);
        }
        BIO_free(in);
        if (r == 0 && count == 0)
                r = content.n > 0 ? add_der(c, content) : -EINVAL;
        ERR_clear_error(); /* the end of the text is one */
        return r < 0 ? r : count > 0 ? count : r;
}
