#include "io/cert.h"

#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <string.h>

#define DAY_S (24L * 60 * 60)
#define BACKDATE_S DAY_S /* clocks differ */

static bool add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
        X509_EXTENSION *ext;
        X509V3_CTX ctx;
        bool ok;

        X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
        ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
        ok = ext && X509_add_ext(cert, ext, -1) == 1;
        X509_EXTENSION_free(ext);
        return ok;
}

static bool set_serial(X509 *cert)
{
        unsigned char bytes[16];
        BIGNUM *n = NULL;
        bool ok;

        if (RAND_bytes(bytes, sizeof(bytes)) != 1)
                return false;
        bytes[0] = (bytes[0] & 0x3f) | 0x40; /* positive, and always the same length */
        n = BN_bin2bn(bytes, sizeof(bytes), NULL);
        ok = n && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(cert));
        BN_free(n);
        return ok;
}

static bool add_extensions(X509 *cert, X509 *issuer, const struct cert_spec *spec)
{
        if (!add_extension(cert, issuer, NID_subject_key_identifier, "hash") ||
            !add_extension(cert, issuer, NID_authority_key_identifier, "keyid:always"))
                return false;
        switch (spec->kind) {
        case CERT_ROOT:
                return add_extension(cert, issuer, NID_basic_constraints, "critical,CA:TRUE") &&
                       add_extension(cert, issuer, NID_key_usage, "critical,keyCertSign,cRLSign");
        case CERT_ISSUER:
                return add_extension(cert, issuer, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
                       add_extension(cert, issuer, NID_key_usage, "critical,keyCertSign,cRLSign") &&
                       add_extension(cert, issuer, NID_name_constraints, spec->names);
        case CERT_LEAF:
                return add_extension(cert, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
                       add_extension(cert, issuer, NID_key_usage, "critical,digitalSignature") &&
                       add_extension(cert, issuer, NID_ext_key_usage, "serverAuth") &&
                       add_extension(cert, issuer, NID_subject_alt_name, spec->names);
        }
        return false;
}

X509 *cert_make(const struct cert_spec *spec)
{
        X509 *cert = X509_new(), *issuer = spec->issuer ? spec->issuer : cert;
        X509_NAME *name;

        if (!cert)
                return NULL;
        name = X509_get_subject_name(cert);
        if (X509_set_version(cert, X509_VERSION_3) != 1 || !set_serial(cert) ||
            !X509_gmtime_adj(X509_getm_notBefore(cert), -BACKDATE_S) ||
            !X509_gmtime_adj(X509_getm_notAfter(cert), spec->days * DAY_S) ||
            X509_NAME_add_entry_by_txt(name, "O", MBSTRING_UTF8, (const unsigned char *)"Sandglass", -1, -1, 0) != 1 ||
            X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)spec->common_name, -1, -1,
                                       0) != 1 ||
            X509_set_issuer_name(cert, X509_get_subject_name(issuer)) != 1 || X509_set_pubkey(cert, spec->key) != 1 ||
            !add_extensions(cert, issuer, spec) || X509_sign(cert, spec->issuer_key, EVP_sha256()) == 0) {
                X509_free(cert);
                return NULL;
        }
        return cert;
}

bool cert_is_plain_name(const char *name)
{
        size_t n = strlen(name), label = 0;

        if (n == 0 || n > 253)
                return false;
        for (size_t i = 0; i < n; i++) {
                char c = name[i];

                if (c == '.') {
                        if (label == 0)
                                return false;
                        label = 0;
                } else if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-') {
                        if (++label > 63)
                                return false;
                } else {
                        return false;
                }
        }
        return label > 0;
}

static bool any_dns_name(const X509 *cert, bool (*is_it)(const char *san, size_t n, const char *name), const char *name)
{
        GENERAL_NAMES *all = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
        bool found = false;

        for (int i = 0; i < sk_GENERAL_NAME_num(all) && !found; i++) {
                const GENERAL_NAME *g = sk_GENERAL_NAME_value(all, i);

                if (g->type == GEN_DNS)
                        found = is_it((const char *)ASN1_STRING_get0_data(g->d.dNSName),
                                      (size_t)ASN1_STRING_length(g->d.dNSName), name);
        }
        GENERAL_NAMES_free(all);
        return found;
}

static bool is_same(const char *san, size_t n, const char *name)
{
        return n == strlen(name) && memcmp(san, name, n) == 0;
}

static bool is_wildcard_for(const char *san, size_t n, const char *name)
{
        const char *dot = strchr(name, '.');

        return n > 2 && san[0] == '*' && san[1] == '.' && dot && dot > name && is_same(san + 1, n - 1, dot);
}

bool cert_has_name(const X509 *cert, const char *name)
{
        return any_dns_name(cert, is_same, name);
}

bool cert_has_wildcard_for(const X509 *cert, const char *name)
{
        return any_dns_name(cert, is_wildcard_for, name);
}
