#include "edge/route/signed_url.h"

#include "edge/route/owner.h"
#include "edge/route/routes.h"

#define QUERY_MAX (8u << 10) /* longer paths do not exist */

static bool method_is_read(struct str method)
{
        return str_is(method, "GET");
}

bool signed_url_is(struct str method, struct str target, struct str *ret_query)
{
        struct str path, rest = target, pair;

        if ((!method_is_read(method) && !str_is(method, "POST")) || !str_cut(&rest, '?', &path) ||
            !str_is(path, "/files"))
                return false;
        *ret_query = rest;
        while (rest.n && rest.n <= QUERY_MAX) {
                (void)str_cut(&rest, '&', &pair);
                if (str_starts(pair, "signature="))
                        return true;
        }
        return false;
}

enum routes_result signed_url_ask(struct visit *v, struct str method, struct str query)
{
        return owner_ask(v, &v->table->by_signature,
                         json_pack("{s:s, s:s%, s:s}", "op", "signed", "query", query.p, query.n, "operation",
                                   method_is_read(method) ? "read" : "write"));
}
