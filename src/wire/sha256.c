#include "wire/sha256.h"

#include <string.h>

#include "wire/sha256_mix.h"

static void store(uint8_t *p, uint32_t v)
{
        p[0] = (uint8_t)(v >> 24);
        p[1] = (uint8_t)(v >> 16);
        p[2] = (uint8_t)(v >> 8);
        p[3] = (uint8_t)v;
}

void sha256_init(struct sha256 *s)
{
        static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                          0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

        memcpy(s->state, start, sizeof(start));
        s->total = 0;
}

void sha256_add(struct sha256 *s, const void *p, size_t n)
{
        const uint8_t *in = p;
        size_t held = s->total % SHA256_BLOCK;

        if (n == 0)
                return;
        s->total += n;
        if (held) {
                size_t room = SHA256_BLOCK - held, most = n < room ? n : room;

                memcpy(s->block + held, in, most);
                in += most;
                n -= most;
                if (most < room)
                        return;
                sha256_mix(s->state, s->block, 1);
        }
        sha256_mix(s->state, in, n / SHA256_BLOCK);
        memcpy(s->block, in + n / SHA256_BLOCK * SHA256_BLOCK, n % SHA256_BLOCK);
}

void sha256_end(struct sha256 *s, uint8_t out[SHA256_LEN])
{
        uint64_t bits = s->total * 8;
        size_t held = s->total % SHA256_BLOCK;

        s->block[held++] = 0x80;
        if (held > SHA256_BLOCK - 8) {
                memset(s->block + held, 0, SHA256_BLOCK - held);
                sha256_mix(s->state, s->block, 1);
                held = 0;
        }
        memset(s->block + held, 0, SHA256_BLOCK - 8 - held);
        store(s->block + SHA256_BLOCK - 8, (uint32_t)(bits >> 32));
        store(s->block + SHA256_BLOCK - 4, (uint32_t)bits);
        sha256_mix(s->state, s->block, 1);
        for (size_t i = 0; i < 8; i++)
                store(out + 4 * i, s->state[i]);
        explicit_bzero(s, sizeof(*s));
}

void sha256(const void *p, size_t n, uint8_t out[SHA256_LEN])
{
        struct sha256 s;

        sha256_init(&s);
        sha256_add(&s, p, n);
        sha256_end(&s, out);
}

void sha256_hex(struct str s, char out[SHA256_HEX_LEN + 1])
{
        uint8_t digest[SHA256_LEN];

        sha256(s.p, s.n, digest);
        hex_encode(digest, sizeof(digest), out);
}

static void begin_padded(struct sha256 *s, const uint8_t key[SHA256_BLOCK], uint8_t pad)
{
        uint8_t block[SHA256_BLOCK];

        for (size_t i = 0; i < SHA256_BLOCK; i++)
                block[i] = key[i] ^ pad;
        sha256_init(s);
        sha256_add(s, block, sizeof(block));
        explicit_bzero(block, sizeof(block));
}

void hmac_sha256(struct str key, const void *p, size_t n, uint8_t out[SHA256_LEN])
{
        uint8_t block[SHA256_BLOCK] = {0}, inner[SHA256_LEN];
        struct sha256 s;

        if (key.n > SHA256_BLOCK)
                sha256(key.p, key.n, block);
        else if (key.n)
                memcpy(block, key.p, key.n);
        begin_padded(&s, block, 0x36);
        sha256_add(&s, p, n);
        sha256_end(&s, inner);
        begin_padded(&s, block, 0x5c);
        sha256_add(&s, inner, sizeof(inner));
        sha256_end(&s, out);
        explicit_bzero(block, sizeof(block));
        explicit_bzero(inner, sizeof(inner));
}
