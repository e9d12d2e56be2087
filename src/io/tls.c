#include "io/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "base/err.h"
#include "io/cert.h"
#include "io/tls_impl.h"

#define SINGLE_NAME_DAYS 30L

static int choose_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len, const unsigned char *in,
                       unsigned in_len, void *arg)
{
        const struct tls_context *t = arg;
        unsigned char *chosen;

        (void)ssl;
        if (SSL_select_next_proto(&chosen, out_len, t->alpn, t->alpn_len, in, in_len) != OPENSSL_NPN_NEGOTIATED)
                return SSL_TLSEXT_ERR_ALERT_FATAL;
        *out = chosen;
        return SSL_TLSEXT_ERR_OK;
}

/* OpenSSL and Node accept no wildcard right below a top-level name, so "*.localhost" covers nothing for them: there the
 * client gets a certificate for the very name it asked for. */
static int choose_cert(SSL *ssl, void *arg)
{
        const struct tls_context *t = arg;
        const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
        char san[4 + 253 + 1];
        X509 *single;
        int r;

        if (!name || !cert_is_plain_name(name) || X509_check_host(t->leaf, name, 0, 0, NULL) == 1 ||
            !cert_has_wildcard_for(t->leaf, name))
                return 1;
        (void)snprintf(san, sizeof(san), "DNS:%s", name);
        single = cert_make(&(struct cert_spec){
                .kind = CERT_LEAF,
                .common_name = "Sandglass",
                .names = san,
                .days = SINGLE_NAME_DAYS,
                .key = t->key,
                .issuer = t->issuer,
                .issuer_key = t->key,
        });
        r = single ? SSL_use_certificate(ssl, single) : 0;
        X509_free(single);
        return r;
}

static int set_alpn(struct tls_context *t, const char *const *alpn)
{
        for (; alpn && *alpn; alpn++) {
                size_t n = strlen(*alpn);

                if (n == 0 || n > 255 || n + 1 > sizeof(t->alpn) - t->alpn_len)
                        return -EINVAL;
                t->alpn[t->alpn_len++] = (unsigned char)n;
                memcpy(t->alpn + t->alpn_len, *alpn, n);
                t->alpn_len += (unsigned)n;
        }
        if (t->alpn_len)
                SSL_CTX_set_alpn_select_cb(t->ctx, choose_alpn, t);
        return 0;
}

/* The chain's second certificate is ours to sign with when it has the leaf's own key (local_ca.c). */
static void find_issuer(struct tls_context *t)
{
        STACK_OF(X509) *chain = NULL;
        X509 *second;

        t->leaf = SSL_CTX_get0_certificate(t->ctx);
        t->key = SSL_CTX_get0_privatekey(t->ctx);
        (void)SSL_CTX_get0_chain_certs(t->ctx, &chain);
        second = sk_X509_num(chain) > 0 ? sk_X509_value(chain, 0) : NULL;
        if (!second || X509_check_ca(second) != 1 || X509_check_private_key(second, t->key) != 1)
                return;
        t->issuer = second;
        SSL_CTX_set_cert_cb(t->ctx, choose_cert, t);
}

/* OpenSSL's own words for what went wrong last. */
static int fail(struct err *err, const char *what, const char *path)
{
        unsigned long code = ERR_peek_last_error();
        const char *reason = ERR_reason_error_string(code);

        ERR_clear_error();
        return err_set(err, ERR_INVALID, "%s '%s': %s", what, path, reason ? reason : "cannot be read");
}

static void set_modes(SSL_CTX *ctx)
{
        (void)SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
        (void)SSL_CTX_set_options(ctx,
                                  SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
        (void)SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                            SSL_MODE_RELEASE_BUFFERS);
        SSL_CTX_set_read_ahead(ctx, 1);
        (void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF); /* tickets are kept by the clients */
        (void)SSL_CTX_set_num_tickets(ctx, 1);
}

static int context_alloc(const SSL_METHOD *method, struct tls_context **ret, struct err *err)
{
        struct tls_context *t;

        ERR_clear_error();
        t = calloc(1, sizeof(*t));
        if (t) {
                t->refs = 1;
                t->ctx = SSL_CTX_new(method);
        }
        if (!t || !t->ctx) {
                t = tls_context_free(t);
                return err_sys(err, -ENOMEM, "TLS context");
        }
        set_modes(t->ctx);
        *ret = t;
        return 0;
}

int tls_client_context_create(const char *ca_pem_path, struct tls_context **ret, struct err *err)
{
        static const unsigned char alpn[] = "\x08http/1.1";
        struct tls_context *t;
        int r = context_alloc(TLS_client_method(), &t, err);

        if (r < 0)
                return r;
        SSL_CTX_set_verify(t->ctx, SSL_VERIFY_PEER, NULL);
        t->quiet_socket = stream_quiet_socket();
        if (!t->quiet_socket)
                r = err_sys(err, -ENOMEM, "TLS context");
        else if (SSL_CTX_set_alpn_protos(t->ctx, alpn, sizeof(alpn) - 1) != 0)
                r = err_sys(err, -ENOMEM, "TLS context");
        else if (ca_pem_path && SSL_CTX_load_verify_locations(t->ctx, ca_pem_path, NULL) != 1)
                r = fail(err, "authorities", ca_pem_path);
        else if (!ca_pem_path && SSL_CTX_set_default_verify_paths(t->ctx) != 1)
                r = fail(err, "authorities of", "the system");
        if (r < 0) {
                t = tls_context_free(t);
                return r;
        }
        *ret = t;
        return 0;
}

int tls_context_create(const struct tls_options *opt, struct tls_context **ret, struct err *err)
{
        struct tls_context *t;
        int r = context_alloc(TLS_server_method(), &t, err);

        if (r < 0)
                return r;
        if (SSL_CTX_use_certificate_chain_file(t->ctx, opt->cert_pem_path) != 1)
                r = fail(err, "certificate", opt->cert_pem_path);
        else if (SSL_CTX_use_PrivateKey_file(t->ctx, opt->key_pem_path, SSL_FILETYPE_PEM) != 1 ||
                 SSL_CTX_check_private_key(t->ctx) != 1)
                r = fail(err, "key", opt->key_pem_path);
        else if (set_alpn(t, opt->alpn) < 0)
                r = err_set(err, ERR_INVALID, "ALPN names are empty or too long");
        if (r < 0) {
                t = tls_context_free(t);
                return r;
        }
        find_issuer(t);
        *ret = t;
        return 0;
}

int tls_client_context_trust(struct tls_context *t, const char *ca_pem_path, struct err *err)
{
        return SSL_CTX_load_verify_locations(t->ctx, ca_pem_path, NULL) == 1 ? 0
                                                                             : fail(err, "authorities", ca_pem_path);
}

struct tls_context *tls_context_ref(struct tls_context *t)
{
        t->refs++;
        return t;
}

struct tls_context *tls_context_free(struct tls_context *t)
{
        if (!t || --t->refs > 0)
                return NULL;
        SSL_CTX_free(t->ctx);
        BIO_meth_free(t->quiet_socket);
        free(t);
        return NULL;
}
