#include "wire/sha256_mix.h"

#include <stdbool.h>
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

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

static void mix_one(uint32_t state[8], const uint8_t block[SHA256_BLOCK])
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

void sha256_mix_plain(uint32_t state[8], const uint8_t *blocks, size_t count)
{
        for (size_t i = 0; i < count; i++)
                mix_one(state, blocks + i * SHA256_BLOCK);
}

#ifdef __x86_64__

/* The processor keeps the state as two vectors, ABEF and CDGH. */
struct halves {
        __m128i abef, cdgh;
};

__attribute__((target("sha,sse4.1"))) static struct halves halves_load(const uint32_t state[8])
{
        __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0xb1);
        __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(state + 4)), 0x1b);

        return (struct halves){.abef = _mm_alignr_epi8(cdab, efgh, 8), .cdgh = _mm_blend_epi16(efgh, cdab, 0xf0)};
}

__attribute__((target("sha,sse4.1"))) static void halves_store(const struct halves *h, uint32_t state[8])
{
        __m128i feba = _mm_shuffle_epi32(h->abef, 0x1b), dchg = _mm_shuffle_epi32(h->cdgh, 0xb1);

        _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(feba, dchg, 0xf0));
        _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

/* Four rounds at a time; w holds the last sixteen words. */
__attribute__((target("sha,sse4.1"))) static void mix_one_by_instructions(struct halves *h, const uint8_t *block)
{
        const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
        struct halves now = *h;
        __m128i w[4], sum;

        for (size_t i = 0; i < 4; i++)
                w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(block + 16 * i)), big_endian);
#pragma GCC unroll 16
        for (size_t i = 0; i < 16; i++) {
                if (i >= 4)
                        w[i % 4] =
                                _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(w[i % 4], w[(i + 1) % 4]),
                                                                   _mm_alignr_epi8(w[(i + 3) % 4], w[(i + 2) % 4], 4)),
                                                     w[(i + 3) % 4]);
                sum = _mm_add_epi32(w[i % 4], _mm_loadu_si128((const __m128i *)(rounds + 4 * i)));
                now.cdgh = _mm_sha256rnds2_epu32(now.cdgh, now.abef, sum);
                now.abef = _mm_sha256rnds2_epu32(now.abef, now.cdgh, _mm_shuffle_epi32(sum, 0x0e));
        }
        h->abef = _mm_add_epi32(h->abef, now.abef);
        h->cdgh = _mm_add_epi32(h->cdgh, now.cdgh);
}

__attribute__((target("sha,sse4.1"))) static void mix_by_instructions(uint32_t state[8], const uint8_t *blocks,
                                                                      size_t count)
{
        struct halves h = halves_load(state);

        for (size_t i = 0; i < count; i++)
                mix_one_by_instructions(&h, blocks + i * SHA256_BLOCK);
        halves_store(&h, state);
}

static bool has_instructions(void)
{
        static int known; /* 1: yes, -1: no; threads that ask at once find the same */
        unsigned a, b, c, d;

        if (known == 0)
                known = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_1) && (c & bit_SSSE3) &&
                                        __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA)
                                ? 1
                                : -1;
        return known > 0;
}

#endif

void sha256_mix(uint32_t state[8], const uint8_t *blocks, size_t count)
{
#ifdef __x86_64__
        if (has_instructions()) {
                mix_by_instructions(state, blocks, count);
                return;
        }
#endif
        sha256_mix_plain(state, blocks, count);
}
