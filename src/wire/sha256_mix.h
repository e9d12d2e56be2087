/* sha256_mix.h - the rounds of SHA-256 over whole blocks: by the processor's own instructions where it has them. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "wire/sha256.h"

void sha256_mix(uint32_t state[8], const uint8_t *blocks, size_t count);
void sha256_mix_plain(uint32_t state[8], const uint8_t *blocks, size_t count); /* the same on every processor */
