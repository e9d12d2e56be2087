#include "edge/signed.h"

#include <errno.h>
#include <string.h>

#include "edge/client.h"
#include "edge/edge.h"

#define QUERY_MAX (8u << 10) /* longer paths do not exist */

static bool is_read(struct str method)
{
        return str_is(method, "GET");
}

bool signed_concerns(struct str method, struct str target, struct str *ret_query)
{
        struct str path, rest = target, pair;

        if ((!is_read(method) && !str_is(method, "POST")) || !str_cut(&rest, '?', &path) || !str_is(path, "/files"))
                return false;
        *ret_query = rest;
        while (rest.n && rest.n <= QUERY_MAX) {
                (void)str_cut(&rest, '&', &pair);
                if (str_starts(pair, "signature="))
                        return true;
        }
        return false;
}

enum routes_result signed_ask(struct edge *e, struct client *c, struct str method, struct str query)
{
        const struct edge_limits *l = e->limits;
        int r;

        if (!budget_is_left(&e->unsigned_urls, l->unsigned_burst, l->unsigned_per_s))
                return ROUTES_CROWDED;
        if (e->signed_count >= l->signed_max)
                return ROUTES_FULL;
        c->x.signed_req = ++e->last_req;
        list_push_back(&e->signed_urls, &c->x.wait);
        e->signed_count++;
        r = link_send(&e->routes_link,
                      json_pack("{s:s, s:I, s:s%, s:s}", "op", "signed", "req", (json_int_t)c->x.signed_req, "query",
                                query.p, query.n, "operation", is_read(method) ? "read" : "write"));
        if (r == 0 || r == -ENOTCONN || r == -EPIPE)
                return ROUTES_WAIT; /* if not now it is asked once the link is up again */
        signed_forget(c);
        return ROUTES_FULL;
}

void signed_forget(struct client *c)
{
        if (!c->x.signed_req)
                return;
        list_remove(&c->x.wait);
        c->edge->signed_count--;
        c->x.signed_req = 0;
}

static void take_answer(struct edge *e, struct client *c, const json_t *msg)
{
        const char *id = json_string_value(json_object_get(msg, "id"));
        enum err_kind kind = link_answer_kind(msg);

        if (kind == ERR_NONE && id && sandbox_id_is_valid(str_of(id))) {
                memcpy(c->x.id, id, strlen(id) + 1);
        } else if (kind == ERR_NOT_FOUND) {
                (void)budget_spend(&e->unsigned_urls, e->limits->unsigned_burst, e->limits->unsigned_per_s);
                c->x.route_wait = WAIT_NOT_FOUND;
        } else {
                c->x.route_wait = WAIT_UNAVAILABLE;
        }
}

void signed_answered(struct edge *e, uint64_t req, const json_t *msg)
{
        LIST_EACH (node, &e->signed_urls) { /* told in order: nearly always the first */
                struct client *c = LIST_ENTRY(node, struct client, x.wait);

                if (c->x.signed_req != req)
                        continue;
                signed_forget(c);
                take_answer(e, c, msg);
                client_resume(c);
                return;
        }
}

/* Their heads are still there: each is looked at once more, and asks. */
void signed_ask_again(struct edge *e)
{
        for (size_t n = e->signed_count; n > 0 && !list_is_empty(&e->signed_urls); n--) {
                struct client *c = LIST_ENTRY(e->signed_urls.next, struct client, x.wait);

                signed_forget(c);
                client_resume(c);
        }
}
