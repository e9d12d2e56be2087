/* registry_gcp.c - a password for Google's registries from the key of a service account: an assertion (JWT, RS256) that is signed
 * with the key, and exchanged for an access token. */
#include <errno.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <string.h>

#include "base/err.h"
#include "image/json_document.h"
#include "image/registry_auth.h"
#include "wire/base64.h"
#include "wire/url.h"

#define SCOPE "https://www.googleapis.com/auth/devstorage.read_only https://www.googleapis.com/auth/cloud-platform"
#define LIFE_S 600
#define ACCOUNT_MAX (16u << 10)
#define ANSWER_MAX (256u << 10)
#define ASSERTION_MAX (16u << 10)

static void free_key(EVP_PKEY **key)
{
        EVP_PKEY_free(*key);
}
static void free_context(EVP_MD_CTX **context)
{
        EVP_MD_CTX_free(*context);
}

static int never_ask(char *text, int size, int is_writing, void *arg)
{
        (void)text, (void)size, (void)is_writing, (void)arg;
        return -1; /* a key with a password is of no use here, and nobody is asked for one */
}

static EVP_PKEY *read_key(const char *pem)
{
        BIO *bio = BIO_new_mem_buf(pem, (int)strlen(pem));
        EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, never_ask, NULL) : NULL;

        BIO_free(bio);
        if (key && EVP_PKEY_get_base_id(key) != EVP_PKEY_RSA) {
                EVP_PKEY_free(key);
                return NULL;
        }
        return key;
}

static int add_base64url(struct buf *out, const void *p, size_t n)
{
        AUTO_BUF struct buf text = BUF_INIT(ASSERTION_MAX);
        int r = base64_add(&text, p, n, false);

        for (size_t i = 0; r == 0 && i < text.len; i++) {
                uint8_t *c = buf_at(&text) + i;

                *c = *c == '+' ? '-' : *c == '/' ? '_' : *c;
        }
        return r < 0 ? r : buf_add(out, buf_at(&text), text.len);
}

static int add_json(struct buf *out, json_t *obj)
{
        AUTO_FREE char *text = obj ? json_dumps(obj, JSON_COMPACT) : NULL;

        json_decref(obj);
        return text ? add_base64url(out, text, strlen(text)) : -ENOMEM;
}

static int add_signature(struct buf *out, const char *pem, struct err *err)
{
        AUTO(free_key) EVP_PKEY *key = read_key(pem);
        AUTO(free_context) EVP_MD_CTX *context = EVP_MD_CTX_new();
        unsigned char signature[2048];
        size_t n = sizeof(signature), signed_bytes = out->len;

        if (!key)
                return err_set(err, ERR_INVALID,
                               "fromImageRegistry: serviceAccountJson: private_key is not an RSA key in PEM");
        if (!context || EVP_DigestSignInit(context, NULL, EVP_sha256(), NULL, key) != 1 ||
            EVP_DigestSign(context, signature, &n, buf_at(out), signed_bytes) != 1)
                return err_set(err, ERR_INVALID, "fromImageRegistry: serviceAccountJson: private_key cannot sign");
        if (buf_addc(out, ".") < 0 || add_base64url(out, signature, n) < 0)
                return err_sys(err, -ENOMEM, "sign the request to Google");
        return 0;
}

static int make_assertion(const json_t *account, const char *audience, int64_t now_s, struct buf *out, struct err *err)
{
        const char *email = json_string_value(json_object_get(account, "client_email"));
        const char *pem = json_string_value(json_object_get(account, "private_key"));
        const char *key_id = json_string_value(json_object_get(account, "private_key_id"));
        int r;

        if (!email || !pem)
                return err_set(err, ERR_INVALID,
                               "fromImageRegistry: serviceAccountJson: client_email or private_key is missing");
        r = add_json(out, json_pack("{s:s,s:s,s:s*}", "alg", "RS256", "typ", "JWT", "kid", key_id));
        if (r == 0)
                r = buf_addc(out, ".");
        if (r == 0)
                r = add_json(out, json_pack("{s:s,s:s,s:s,s:I,s:I}", "iss", email, "scope", SCOPE, "aud", audience,
                                            "iat", (json_int_t)now_s, "exp", (json_int_t)now_s + LIFE_S));
        return r < 0 ? err_sys(err, r, "sign the request to Google") : add_signature(out, pem, err);
}

int gcp_token_form(const struct registry_auth *a, const char *audience, int64_t now_s, struct buf *out, struct err *err)
{
        AUTO_BUF struct buf assertion = BUF_INIT(ASSERTION_MAX);
        json_t *account = NULL;
        int r;

        r = json_document_parse(str_of(a->service_account), ACCOUNT_MAX, "fromImageRegistry: serviceAccountJson",
                                &account, err);
        if (r < 0)
                return r;
        r = make_assertion(account, audience, now_s, &assertion, err);
        json_decref(account);
        if (r < 0)
                return r;
        r = buf_addc(out, "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=");
        if (r == 0)
                r = url_encode((struct str){(const char *)buf_at(&assertion), assertion.len}, out);
        return r < 0 ? err_sys(err, r, "sign the request to Google") : 0;
}

int gcp_take_token(struct registry_auth *a, struct str answer, struct err *err)
{
        const char *token;
        json_t *obj = NULL;
        int r;

        r = json_document_parse(answer, ANSWER_MAX, "answer of Google", &obj, err);
        if (r < 0)
                return r;
        token = json_string_value(json_object_get(obj, "access_token"));
        if (registry_token_is_valid(token, REGISTRY_TOKEN_MAX)) {
                free(a->username);
                free(a->password);
                a->username = strdup("oauth2accesstoken");
                a->password = strdup(token);
                r = a->username && a->password ? 0 : err_sys(err, -ENOMEM, "credentials");
        } else {
                r = err_set(err, ERR_INVALID, "Google answers without a token");
        }
        json_decref(obj);
        return r;
}
