#include "control/signers.h"

#include "base/auto.h"
#include "base/str.h"
#include "control/control.h"
#include "control/tokens.h"
#include "wire/signature.h"
#include "wire/url.h"

/* Whether it runs is not asked here: the route says what becomes of a request to one at rest. */
static bool may_sign(const struct life *l)
{
        enum sandbox_state state = l->sandbox.state;

        return l->team && l->sandbox.is_secured && state != SANDBOX_STARTING && state != SANDBOX_KILLING;
}

const char *signers_find(const struct control *c, const char *query, const char *operation)
{
        AUTO_FREE char *path = NULL, *user = NULL, *given = NULL, *expiration = NULL;
        char token[TOKEN_MAX], want[SIGNATURE_MAX];
        struct str q = str_of(query);
        struct sha256 begun;

        if (url_query_get(q, "path", &path) < 0 || url_query_get(q, "username", &user) < 0 ||
            url_query_get(q, "signature", &given) < 0 || url_query_get(q, "signature_expiration", &expiration) < 0 ||
            !given)
                return NULL;
        signature_begin(&begun, path, operation, user);
        LIST_EACH (node, &c->lives.all) {
                const struct life *l = LIST_ENTRY(node, struct life, node);

                if (!may_sign(l))
                        continue;
                token_envd(c->seed, l->sandbox.id, token);
                signature_end(&begun, token, expiration, want);
                if (str_eq_secret(str_of(given), str_of(want)))
                        return l->sandbox.id;
        }
        return NULL;
}
