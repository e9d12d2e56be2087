/* sha256.h - SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104).  No library, so that the static daemon has it too. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define SHA256_LEN 32
#define SHA256_BLOCK 64

struct sha256 {
        uint32_t state[8];
        uint64_t total; /* bytes so far */
        uint8_t block[SHA256_BLOCK];
};
void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *p, size_t n);
void sha256_end(struct sha256 *s, uint8_t out[SHA256_LEN]); /* wipes s */

void sha256(const void *p, size_t n, uint8_t out[SHA256_LEN]);
#define SHA256_HEX_LEN (2 * SHA256_LEN)
void sha256_hex(struct str s, char out[SHA256_HEX_LEN + 1]); /* lower-case, NUL-terminated */

void hmac_sha256(struct str key, const void *p, size_t n, uint8_t out[SHA256_LEN]);
