#include "edge/route/token.h"

#include <string.h>

#include "edge/route/owner.h"
#include "edge/route/routes.h"

bool token_is_wellformed(struct str token)
{
        if (token.n != SHA256_HEX_LEN)
                return false;
        for (size_t i = 0; i < token.n; i++)
                if (!((token.p[i] >= '0' && token.p[i] <= '9') || (token.p[i] >= 'a' && token.p[i] <= 'f')))
                        return false;
        return true;
}

static struct known_token *token_place(const struct route_table *t, struct str token, uint8_t hash[SHA256_LEN])
{
        uint32_t n;

        sha256(token.p, token.n, hash);
        memcpy(&n, hash, sizeof(n));
        return &t->tokens[n % TOKENS_KEPT];
}

static struct str token_hash_text(const uint8_t hash[SHA256_LEN])
{
        return (struct str){(const char *)hash, SHA256_LEN};
}

bool token_find(const struct route_table *t, struct str token, char ret_id[SANDBOX_ID_MAX])
{
        uint8_t hash[SHA256_LEN];
        const struct known_token *k = token_place(t, token, hash);

        if (!k->id[0] || !str_eq_secret(token_hash_text(hash), token_hash_text(k->hash)))
                return false;
        memcpy(ret_id, k->id, sizeof(k->id));
        return true;
}

void token_keep(struct route_table *t, struct str token, const char *id)
{
        uint8_t hash[SHA256_LEN];
        struct known_token *k = token_place(t, token, hash);

        memcpy(k->hash, hash, sizeof(hash));
        memcpy(k->id, id, sizeof(k->id));
}

enum routes_result token_ask(struct visit *v, struct str token)
{
        return owner_ask(v, &v->table->by_token,
                         json_pack("{s:s, s:s%}", "op", "token", "access_token", token.p, token.n));
}
