#include "io/cert_facts.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <time.h>

#include "base/auto.h"
#include "base/err.h"

static int facts_fail(struct err *err, const char *what, const char *which)
{
        const char *reason = ERR_reason_error_string(ERR_peek_last_error());

        ERR_clear_error();
        return err_set(err, ERR_INVALID, "%s '%s': %s", what, which, reason ? reason : "cannot be read");
}

static int64_t seconds_of(const ASN1_TIME *t)
{
        struct tm tm;

        return t && ASN1_TIME_to_tm(t, &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}

static void issuer_of(const X509 *cert, char out[CERT_WORDS_MAX])
{
        const X509_NAME *name = X509_get_issuer_name(cert);
        int n = X509_NAME_get_text_by_NID((X509_NAME *)(size_t)name, NID_commonName, out, CERT_WORDS_MAX);

        if (n <= 0)
                (void)X509_NAME_oneline(name, out, CERT_WORDS_MAX);
        for (char *p = out; *p; p++)
                if ((unsigned char)*p < ' ' || (unsigned char)*p > '~')
                        *p = '?'; /* it goes to a terminal */
}

static void facts_take(X509 *cert, const char *name, struct cert_facts *ret)
{
        *ret = (struct cert_facts){
                .begins_s = seconds_of(X509_get0_notBefore(cert)),
                .ends_s = seconds_of(X509_get0_notAfter(cert)),
                .covers_name = X509_check_host(cert, name, 0, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS, NULL) == 1,
        };
        issuer_of(cert, ret->issuer);
}

static X509_STORE *authorities(const char *ca_pem_path)
{
        X509_STORE *store = X509_STORE_new();
        int ok = !store        ? 0
                 : ca_pem_path ? X509_STORE_load_locations(store, ca_pem_path, NULL)
                               : X509_STORE_set_default_paths(store);

        if (ok == 1)
                return store;
        X509_STORE_free(store);
        return NULL;
}

/* The first certificate of the file, and the others. */
static int read_chain(const char *path, X509 **ret_leaf, STACK_OF(X509) * rest, struct err *err)
{
        BIO *in = BIO_new_file(path, "re");
        X509 *leaf = in ? PEM_read_bio_X509(in, NULL, NULL, NULL) : NULL, *next;

        if (!leaf) {
                BIO_free(in);
                return facts_fail(err, "certificate", path);
        }
        while ((next = PEM_read_bio_X509(in, NULL, NULL, NULL)) && sk_X509_push(rest, next) > 0)
                continue;
        BIO_free(in);
        ERR_clear_error(); /* the end of the file is one */
        *ret_leaf = leaf;
        return 0;
}

static void judge_chain(X509 *leaf, STACK_OF(X509) * rest, const char *ca_pem_path, struct cert_facts *ret)
{
        X509_STORE *store = authorities(ca_pem_path);
        X509_STORE_CTX *ctx = X509_STORE_CTX_new();
        const char *why = "the authorities cannot be read";

        if (store && ctx && X509_STORE_CTX_init(ctx, store, leaf, rest) == 1 &&
            X509_STORE_CTX_set_default(ctx, "ssl_server") == 1)
                why = X509_verify_cert(ctx) == 1 ? "" : X509_verify_cert_error_string(X509_STORE_CTX_get_error(ctx));
        (void)snprintf(ret->distrusted, sizeof(ret->distrusted), "%s", why);
        X509_STORE_CTX_free(ctx);
        X509_STORE_free(store);
        ERR_clear_error();
}

int cert_facts_of_file(const char *cert_pem_path, const char *name, const char *ca_pem_path, struct cert_facts *ret,
                       struct err *err)
{
        STACK_OF(X509) *rest = sk_X509_new_null();
        X509 *leaf = NULL;
        int r;

        ERR_clear_error();
        r = rest ? read_chain(cert_pem_path, &leaf, rest, err) : err_sys(err, -ENOMEM, "certificate");
        if (r == 0) {
                facts_take(leaf, name, ret);
                judge_chain(leaf, rest, ca_pem_path, ret);
        }
        X509_free(leaf);
        sk_X509_pop_free(rest, X509_free);
        return r;
}

static int shake_hands(SSL *ssl, const char *name, struct cert_facts *ret, struct err *err)
{
        long verdict;
        X509 *cert;

        if (SSL_connect(ssl) != 1) {
                int sys = errno;

                if (ERR_peek_last_error() == 0)
                        return err_set(err, ERR_UNAVAILABLE, "TLS handshake for %s: %s", name,
                                       sys == EAGAIN ? "no answer in time" : "the connection was closed");
                return facts_fail(err, "TLS handshake for", name);
        }
        cert = SSL_get1_peer_certificate(ssl);
        if (!cert)
                return err_set(err, ERR_INVALID, "TLS handshake for %s: no certificate came", name);
        facts_take(cert, name, ret);
        X509_free(cert);
        verdict = SSL_get_verify_result(ssl);
        if (verdict != X509_V_OK)
                (void)snprintf(ret->distrusted, sizeof(ret->distrusted), "%s", X509_verify_cert_error_string(verdict));
        return 0;
}

int cert_facts_of_server(int fd, const char *name, const char *ca_pem_path, struct cert_facts *ret, struct err *err)
{
        SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
        SSL *ssl = ctx ? SSL_new(ctx) : NULL;
        X509_STORE *store = authorities(ca_pem_path);
        int r;

        ERR_clear_error();
        if (!ssl || SSL_set_fd(ssl, fd) != 1 || SSL_set_tlsext_host_name(ssl, name) != 1) {
                r = err_sys(err, -ENOMEM, "TLS handshake");
        } else if (!store || SSL_set1_verify_cert_store(ssl, store) != 1) {
                r = err_set(err, ERR_UNAVAILABLE, "the certificate authorities of %s cannot be read",
                            ca_pem_path ? ca_pem_path : "the system");
        } else {
                SSL_set_verify(ssl, SSL_VERIFY_NONE, NULL); /* it goes on, and the verdict is looked at afterwards */
                r = shake_hands(ssl, name, ret, err);
        }
        SSL_free(ssl);
        SSL_CTX_free(ctx);
        X509_STORE_free(store);
        return r;
}
