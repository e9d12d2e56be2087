/* token.h - requests that carry an access token and nothing else that names a sandbox: which sandbox the token belongs to.
 *
 * Control is asked once (owner.h) and the answer is kept.  An answer stays right: a token is derived from the sandbox's id, so
 * no other sandbox can ever have it; whether the sandbox still runs is in its route. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "edge/route/visit.h"
#include "model/ids.h"
#include "wire/sha256.h"

struct visit;
struct route_table;

#define TOKENS_KEPT 1024u /* of two tokens with the same place the later one stays */

struct known_token {
        uint8_t hash[SHA256_LEN]; /* of the token, which is not kept */
        char id[SANDBOX_ID_MAX];  /* "": free */
};

/* false: this server makes no such tokens, and control need not be asked. */
bool token_is_wellformed(struct str token);
bool token_find(const struct route_table *t, struct str token, char ret_id[SANDBOX_ID_MAX]);
void token_keep(struct route_table *t, struct str token, const char *id);
enum routes_result token_ask(struct visit *v, struct str token); /* as owner_ask() */
