#include "control/signers.h"

#include "base/auto.h"
#include "base/str.h"
#include "control/control.h"
#include "control/tokens.h"
#include "wire/signature.h"
#include "wire/url.h"

/* It will be asked for again, and whoever has one such URL or token may ask as often as he likes: found first from now on. */
static void find_first(struct control *c, struct life *l)
{
        list_remove(&l->node);
        list_push_front(&c->lives.all, &l->node);
}

/* Whether it runs is not asked here: the route says what becomes of a request to one at rest. */
static bool may_sign(const struct life *l)
{
        enum sandbox_state state = l->sandbox.state;

        return l->team && l->sandbox.is_secured && state != SANDBOX_STARTING && state != SANDBOX_KILLING;
}

/* Derived once: to look at all of them is then cheap. */
static struct str token_of(const struct control *c, struct life *l)
{
        if (!l->token[0])
                token_envd(c->seed, l->sandbox.id, l->token);
        return (struct str){l->token, SHA256_HEX_LEN};
}

const char *signers_find_token(struct control *c, struct str token)
{
        LIST_EACH (node, &c->lives.all) {
                struct life *l = LIST_ENTRY(node, struct life, node);

                if (!may_sign(l) || !str_eq_secret(token, token_of(c, l)))
                        continue;
                find_first(c, l);
                return l->sandbox.id;
        }
        return NULL;
}

const char *signers_find(struct control *c, const char *query, const char *operation)
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
        LIST_EACH (node, &c->lives.all) {
                struct life *l = LIST_ENTRY(node, struct life, node);

                if (!may_sign(l))
                        continue;
                signature_end(&begun, token_of(c, l).p, expiration, want);
                if (!str_eq_secret(str_of(given), str_of(want)))
                        continue;
                find_first(c, l);
                return l->sandbox.id;
        }
        return NULL;
}
