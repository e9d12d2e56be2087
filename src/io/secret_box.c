#include "io/secret_box.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <string.h>

#define VERSION 1
#define NONCE_LEN 12
#define TAG_LEN 16
#define HEAD_LEN (1 + SECRET_KEY_ID_LEN)
#define ID_OF "sandglass secret key"

/* ---- keys ---- */

static int key_add(struct secret_keys *k, struct str digits)
{
        uint8_t mac[EVP_MAX_MD_SIZE], text[sizeof(ID_OF) + SECRET_KEY_LEN] = ID_OF;
        struct secret_key *key = &k->all[k->count];
        int r;

        if (k->count == SECRET_KEYS_MAX || digits.n != (size_t)2 * SECRET_KEY_LEN)
                return -EBADMSG;
        for (size_t i = 0; i < SECRET_KEY_LEN; i++) {
                int high = hex_value(digits.p[2 * i]), low = hex_value(digits.p[2 * i + 1]);

                if (high < 0 || low < 0)
                        return -EBADMSG;
                key->key[i] = (uint8_t)(high << 4 | low);
        }
        memcpy(text + sizeof(ID_OF), key->key, SECRET_KEY_LEN);
        r = EVP_Digest(text, sizeof(text), mac, NULL, EVP_sha256(), NULL) == 1 ? 0 : -ENOMEM;
        explicit_bzero(text, sizeof(text));
        if (r < 0)
                return r;
        memcpy(key->id, mac, sizeof(key->id));
        k->count++;
        return 0;
}

int secret_keys_parse(struct str text, struct secret_keys *ret)
{
        struct str line;
        bool more;
        int r = 0;

        *ret = (struct secret_keys){0};
        do {
                more = str_cut(&text, '\n', &line);
                if (line.n && line.p[line.n - 1] == '\r')
                        line.n--;
                line = str_trim(line);
                if (line.n && line.p[0] != '#')
                        r = key_add(ret, line);
        } while (more && r == 0);
        if (r == 0 && ret->count == 0)
                r = -EBADMSG;
        if (r < 0)
                secret_keys_done(ret);
        ERR_clear_error();
        return r;
}

void secret_keys_done(struct secret_keys *k)
{
        explicit_bzero(k, sizeof(*k));
}

void secret_key_make(char out[SECRET_KEY_LINE_MAX])
{
        uint8_t raw[SECRET_KEY_LEN];

        random_bytes(raw, sizeof(raw));
        hex_encode(raw, sizeof(raw), out);
        memcpy(out + 2 * sizeof(raw), "\n", 2);
        explicit_bzero(raw, sizeof(raw));
}

static const struct secret_key *key_of(const struct secret_keys *k, struct str sealed)
{
        for (size_t i = 0; i < k->count; i++)
                if (memcmp(sealed.p + 1, k->all[i].id, SECRET_KEY_ID_LEN) == 0)
                        return &k->all[i];
        return NULL;
}

static bool is_sealed(struct str sealed)
{
        return sealed.n >= SECRET_BOX_EXTRA && sealed.p[0] == VERSION;
}

enum secret_box_key secret_box_key(const struct secret_keys *k, struct str sealed)
{
        const struct secret_key *key = is_sealed(sealed) ? key_of(k, sealed) : NULL;

        return !key ? SECRET_BOX_UNKNOWN : key == k->all ? SECRET_BOX_NEWEST : SECRET_BOX_OLDER;
}

/* ---- boxes ---- */

/* The associated data: the head of the box, so that nothing in it can be changed, and the place. */
static bool bind_to(EVP_CIPHER_CTX *c, const uint8_t *head, struct str bound)
{
        int n;

        return EVP_CipherUpdate(c, NULL, &n, head, HEAD_LEN) == 1 &&
               EVP_CipherUpdate(c, NULL, &n, (const uint8_t *)bound.p, (int)bound.n) == 1;
}

static int box_seal(EVP_CIPHER_CTX *c, const struct secret_key *key, struct str bound, struct str secret, uint8_t *box)
{
        uint8_t *nonce = box + HEAD_LEN, *text = nonce + NONCE_LEN, *tag = text + secret.n;
        int n;

        box[0] = VERSION;
        memcpy(box + 1, key->id, SECRET_KEY_ID_LEN);
        random_bytes(nonce, NONCE_LEN);
        if (EVP_EncryptInit_ex(c, EVP_aes_256_gcm(), NULL, key->key, nonce) != 1 || !bind_to(c, box, bound) ||
            (secret.n && EVP_EncryptUpdate(c, text, &n, (const uint8_t *)secret.p, (int)secret.n) != 1) ||
            EVP_EncryptFinal_ex(c, tag, &n) != 1 || EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_GET_TAG, TAG_LEN, tag) != 1)
                return -ENOMEM; /* nothing else can fail here */
        return 0;
}

int secret_box_seal(const struct secret_keys *k, struct str bound, struct str secret, uint8_t *out)
{
        EVP_CIPHER_CTX *c;
        int r;

        if (k->count == 0)
                return -ENOKEY;
        c = EVP_CIPHER_CTX_new();
        r = c ? box_seal(c, &k->all[0], bound, secret, out) : -ENOMEM;
        EVP_CIPHER_CTX_free(c); /* wipes its key schedule */
        ERR_clear_error();
        return r;
}

static int box_open(EVP_CIPHER_CTX *c, const struct secret_key *key, struct str bound, struct str sealed, uint8_t *out)
{
        const uint8_t *box = (const uint8_t *)sealed.p, *nonce = box + HEAD_LEN, *text = nonce + NONCE_LEN;
        size_t len = sealed.n - SECRET_BOX_EXTRA;
        uint8_t tag[TAG_LEN], rest[16];
        int n;

        memcpy(tag, text + len, TAG_LEN);
        if (EVP_DecryptInit_ex(c, EVP_aes_256_gcm(), NULL, key->key, nonce) != 1 || !bind_to(c, box, bound) ||
            (len && EVP_DecryptUpdate(c, out, &n, text, (int)len) != 1) ||
            EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_SET_TAG, TAG_LEN, tag) != 1)
                return -ENOMEM;
        return EVP_DecryptFinal_ex(c, rest, &n) == 1 ? 0 : -EBADMSG;
}

int secret_box_open(const struct secret_keys *k, struct str bound, struct str sealed, uint8_t *out)
{
        const struct secret_key *key;
        EVP_CIPHER_CTX *c;
        int r;

        if (!is_sealed(sealed))
                return -EBADMSG;
        key = key_of(k, sealed);
        if (!key)
                return -ENOKEY;
        c = EVP_CIPHER_CTX_new();
        r = c ? box_open(c, key, bound, sealed, out) : -ENOMEM;
        EVP_CIPHER_CTX_free(c);
        ERR_clear_error();
        if (r < 0)
                explicit_bzero(out, sealed.n - SECRET_BOX_EXTRA);
        return r;
}
