#include "envd/rpc/auth.h"

#include <errno.h>
#include <stdio.h>

#include "base/buf.h"
#include "wire/base64.h"

bool auth_token_is_valid(const struct settings *s, const struct http1_head *head)
{
        return !s->token || str_eq_secret(http1_value(head, "X-Access-Token"), str_of(s->token));
}

int auth_basic_user(const struct http1_head *head, char **ret)
{
        AUTO_BUF struct buf plain = BUF_INIT(4096);
        struct str value = http1_value(head, "Authorization"), scheme, name, rest;

        *ret = NULL;
        if (!str_cut(&value, ' ', &scheme) || !str_iis(scheme, "Basic"))
                return 0;
        if (base64_decode(str_trim(value), &plain) < 0)
                return 0;
        rest = (struct str){(const char *)buf_at(&plain), plain.len};
        if (!str_cut(&rest, ':', &name) || str_has_nul(name))
                return 0;
        *ret = str_dup(name);
        return *ret ? 0 : -ENOMEM;
}

void auth_signature(const struct auth_signed *q, const char *operation, const char *token, char out[SIGNATURE_MAX])
{
        struct sha256 begun;

        signature_begin(&begun, q->path, operation, q->user);
        signature_end(&begun, token, q->expiration, out);
}

const char *auth_files(const struct settings *s, const struct http1_head *head, const struct auth_signed *q,
                       const char *operation, int64_t now_s)
{
        char want[SIGNATURE_MAX];
        uint64_t exp;

        if (!s->token)
                return NULL;
        if (http1_find(head, "X-Access-Token"))
                return auth_token_is_valid(s, head) ? NULL : "access token present in header but does not match";
        if (!q->signature)
                return "missing signature query parameter";
        auth_signature(q, operation, s->token, want);
        if (!str_eq_secret(str_of(q->signature), str_of(want)))
                return "invalid signature";
        if (q->expiration && (parse_u64(str_of(q->expiration), 0, INT64_MAX, &exp) < 0 || (int64_t)exp < now_s))
                return "signature is already expired";
        return NULL;
}
