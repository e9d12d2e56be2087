/* tls_impl.h - what tls.c and stream.c share. */
#pragma once
#include <openssl/ssl.h>

#define TLS_ALPN_MAX 64

struct tls_context {
        _Atomic unsigned
                refs; /* its owner's, and one for each stream, of any thread: callbacks of a handshake come here */
        SSL_CTX *ctx;
        X509 *leaf;                       /* borrowed from ctx */
        X509 *issuer;                     /* borrowed from ctx; NULL: no single names can be signed */
        EVP_PKEY *key;                    /* borrowed from ctx */
        unsigned char alpn[TLS_ALPN_MAX]; /* length-prefixed names, in our order */
        unsigned alpn_len;
        BIO_METHOD *quiet_socket; /* owned: what clients write to; NULL: a server */
};

struct tls_context *tls_context_ref(struct tls_context *t);
BIO_METHOD *stream_quiet_socket(void);
