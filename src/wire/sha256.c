#include "wire/sha256.h"

#include <string.h>

/* Fractional parts of the cube roots of the first 64 primes. */
static const uint32_t rounds[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
        0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, unsigned n)
{
        return x >> n | x << (32 - n);
}

static uint32_t load(const uint8_t *p)
{
        return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void store(uint8_t *p, uint32_t v)
{
        p[0] = (uint8_t)(v >> 24);
        p[1] = (uint8_t)(v >> 16);
        p[2] = (uint8_t)(v >> 8);
        p[3] = (uint8_t)v;
}

static void schedule(const uint8_t block[SHA256_BLOCK], uint32_t w[64])
{
        for (size_t i = 0; i < 16; i++)
                w[i] = load(block + 4 * i);
        for (size_t i = 16; i < 64; i++) {
                uint32_t a = w[i - 15], b = w[i - 2];

                w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] +
                       (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
        }
}

static void mix(uint32_t state[8], const uint8_t block[SHA256_BLOCK])
{
        uint32_t a = state[0], b = state[1], c = state[2], d = state[3]; /* named as in the standard */
        uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
        uint32_t w[64];

        schedule(block, w);
        for (size_t i = 0; i < 64; i++) {
                uint32_t t1 =
                        h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + rounds[i] + w[i];
                uint32_t t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));

                h = g, g = f, f = e, e = d + t1;
                d = c, c = b, b = a, a = t1 + t2;
        }
        state[0] += a, state[1] += b, state[2] += c, state[3] += d;
        state[4] += e, state[5] += f, state[6] += g, state[7] += h;
        explicit_bzero(w, sizeof(w));
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
                mix(s->state, s->block);
        }
        for (; n >= SHA256_BLOCK; in += SHA256_BLOCK, n -= SHA256_BLOCK)
                mix(s->state, in);
        memcpy(s->block, in, n);
}

void sha256_end(struct sha256 *s, uint8_t out[SHA256_LEN])
{
        uint64_t bits = s->total * 8;
        size_t held = s->total % SHA256_BLOCK;

        s->block[held++] = 0x80;
        if (held > SHA256_BLOCK - 8) {
                memset(s->block + held, 0, SHA256_BLOCK - held);
                mix(s->state, s->block);
                held = 0;
        }
        memset(s->block + held, 0, SHA256_BLOCK - 8 - held);
        store(s->block + SHA256_BLOCK - 8, (uint32_t)(bits >> 32));
        store(s->block + SHA256_BLOCK - 4, (uint32_t)bits);
        mix(s->state, s->block);
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
