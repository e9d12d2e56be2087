#include "control/routes/signature_owners.h"

#include "base/auto.h"
#include "base/str.h"
#include "control/access/tokens.h"
#include "control/life/lives.h"
#include "wire/signature.h"
#include "wire/url.h"

/* The same URL or token will be used again, as often as its holder likes: its sandbox is found first from now on. */
static void find_first_from_now(struct lives *ls, struct life *l)
{
        list_remove(&l->node);
        list_push_front(&ls->all, &l->node);
}

/* Whether the sandbox runs is not asked here: its route says what becomes of a request to a paused one. */
static bool life_may_sign(const struct life *l)
{
        enum sandbox_state state = l->sandbox.state;

        return l->team && l->sandbox.is_secured && state != SANDBOX_STARTING && state != SANDBOX_KILLING;
}

/* Derived once: to look at the tokens of all sandboxes is then cheap. */
static struct str life_token(const struct tokens *tokens, struct life *l)
{
        if (!l->token[0])
                token_envd(tokens, l->sandbox.id, l->token);
        return (struct str){l->token, SHA256_HEX_LEN};
}

const char *token_owner(struct lives *ls, const struct tokens *tokens, struct str token)
{
        LIST_EACH (node, &ls->all) {
                struct life *l = LIST_ENTRY(node, struct life, node);

                if (!life_may_sign(l) || !str_eq_secret(token, life_token(tokens, l)))
                        continue;
                find_first_from_now(ls, l);
                return l->sandbox.id;
        }
        return NULL;
}

const char *signature_owner(struct lives *ls, const struct tokens *tokens, const char *query, const char *operation)
{
        AUTO_FREE char *path = NULL, *user = NULL, *given = NULL, *expiration = NULL;
        char want[SIGNATURE_MAX];
        struct str q = str_of(query);
        struct sha256 begun;

        if (url_query_get(q, "path", &path) < 0 || url_query_get(q, "username", &user) < 0 ||
            url_query_get(q, "signature", &given) < 0 || url_query_get(q, "signature_expiration", &expiration) < 0 ||
            !given)
                return NULL;
        signature_begin(&begun, path, operation, user);
        LIST_EACH (node, &ls->all) {
                struct life *l = LIST_ENTRY(node, struct life, node);

                if (!life_may_sign(l))
                        continue;
                signature_end(&begun, life_token(tokens, l).p, expiration, want);
                if (!str_eq_secret(str_of(given), str_of(want)))
                        continue;
                find_first_from_now(ls, l);
                return l->sandbox.id;
        }
        return NULL;
}
