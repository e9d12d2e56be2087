#include "control/tokens.h"

#include <stdio.h>
#include <string.h>

static void derive(const uint8_t seed[STORE_SEED_LEN], const char *text, char out[TOKEN_MAX])
{
        uint8_t mac[SHA256_LEN];

        hmac_sha256((struct str){(const char *)seed, STORE_SEED_LEN}, text, strlen(text), mac);
        hex_encode(mac, sizeof(mac), out);
}

void token_envd(const uint8_t seed[STORE_SEED_LEN], const char *sandbox_id, char out[TOKEN_MAX])
{
        derive(seed, sandbox_id, out);
}

void token_traffic(const uint8_t seed[STORE_SEED_LEN], const char *sandbox_id, char out[TOKEN_MAX])
{
        char text[64];

        (void)snprintf(text, sizeof(text), "sandbox-traffic-%.40s", sandbox_id);
        derive(seed, text, out);
}
