#include "edge/route/owner.h"

#include <errno.h>
#include <string.h>

#include "edge/proxy/edge_client.h"
#include "edge/proxy/edge.h"

void owner_init(struct owner_way *way, const struct owner_limits *limits)
{
        *way = (struct owner_way){.limits = limits};
        list_init(&way->waiting);
}

static json_t *numbered(json_t *question, uint64_t req)
{
        if (json_object_set_new(question, "req", json_integer((json_int_t)req)) == 0)
                return question;
        json_decref(question);
        return NULL;
}

enum routes_result owner_ask(struct client *c, struct owner_way *way, json_t *question)
{
        const struct owner_limits *l = way->limits;
        struct edge *e = c->edge;
        int r;

        if (!budget_is_left(&way->nobodys, l->nobodys_burst, l->nobodys_per_s) || way->count >= l->asked_max) {
                json_decref(question);
                return way->count >= l->asked_max ? ROUTES_FULL : ROUTES_CROWDED;
        }
        c->x.owner_req = ++e->last_req;
        c->x.owner_way = way;
        list_push_back(&way->waiting, &c->x.wait);
        way->count++;
        r = link_send(&e->routes_link, numbered(question, c->x.owner_req));
        if (r == 0 || r == -ENOTCONN || r == -EPIPE)
                return ROUTES_WAIT; /* if not now it is asked once the link is up again */
        owner_forget(c);
        return ROUTES_FULL;
}

void owner_forget(struct client *c)
{
        if (!c->x.owner_req)
                return;
        list_remove(&c->x.wait);
        c->x.owner_way->count--;
        c->x.owner_way = NULL;
        c->x.owner_req = 0;
}

static void take_answer(struct client *c, struct owner_way *way, const json_t *msg)
{
        const char *id = json_string_value(json_object_get(msg, "id"));
        enum err_kind kind = link_answer_kind(msg);

        if (kind == ERR_NONE && id && sandbox_id_is_valid(str_of(id))) {
                memcpy(c->x.id, id, strlen(id) + 1);
                c->x.is_told = true;
        } else if (kind == ERR_NOT_FOUND) {
                (void)budget_spend(&way->nobodys, way->limits->nobodys_burst, way->limits->nobodys_per_s);
                c->x.route_wait = WAIT_NOT_FOUND;
        } else {
                c->x.route_wait = WAIT_UNAVAILABLE;
        }
}

static struct client *asked_with(const struct owner_way *way, uint64_t req)
{
        LIST_EACH (node, &way->waiting) { /* told in order: nearly always the first */
                struct client *c = LIST_ENTRY(node, struct client, x.wait);

                if (c->x.owner_req == req)
                        return c;
        }
        return NULL;
}

void owner_answered(struct edge *e, uint64_t req, const json_t *msg)
{
        struct client *c = asked_with(&e->by_signature, req);
        struct owner_way *way;

        if (!c)
                c = asked_with(&e->by_token, req);
        if (!c)
                return; /* it left */
        way = c->x.owner_way;
        owner_forget(c);
        take_answer(c, way, msg);
        client_resume(c);
}

/* Their heads are still there: each is looked at once more, and asks. */
static void ask_again(struct owner_way *way)
{
        for (size_t n = way->count; n > 0 && !list_is_empty(&way->waiting); n--) {
                struct client *c = LIST_ENTRY(way->waiting.next, struct client, x.wait);

                owner_forget(c);
                client_resume(c);
        }
}

void owner_ask_again(struct edge *e)
{
        ask_again(&e->by_signature);
        ask_again(&e->by_token);
}
