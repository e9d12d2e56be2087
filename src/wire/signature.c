#include "wire/signature.h"

#include <string.h>

#include "wire/base64.h"

static void add(struct sha256 *s, const char *text)
{
        if (text)
                sha256_add(s, text, strlen(text));
}

void signature_begin(struct sha256 *s, const char *path, const char *operation, const char *user)
{
        sha256_init(s);
        add(s, path);
        add(s, ":");
        add(s, operation);
        add(s, ":");
        add(s, user);
        add(s, ":");
}

void signature_end(const struct sha256 *begun, const char *token, const char *expiration, char out[SIGNATURE_MAX])
{
        struct sha256 s = *begun;
        uint8_t hash[SHA256_LEN];
        size_t n;

        add(&s, token);
        if (expiration) {
                add(&s, ":");
                add(&s, expiration);
        }
        sha256_end(&s, hash);
        memcpy(out, "v1_", 3);
        n = base64_encode(hash, sizeof(hash), false, out + 3);
        out[3 + n] = 0;
}
