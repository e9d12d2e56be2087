/* tokens.h - the secrets of a sandbox, derived from the store's seed: the same after every restart, kept nowhere. */
#pragma once
#include <stdint.h>

#include "store/store.h"
#include "wire/sha256.h"

#define TOKEN_MAX (SHA256_HEX_LEN + 1)

void token_envd(const uint8_t seed[STORE_SEED_LEN], const char *sandbox_id, char out[TOKEN_MAX]);
void token_traffic(const uint8_t seed[STORE_SEED_LEN], const char *sandbox_id, char out[TOKEN_MAX]);
