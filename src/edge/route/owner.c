#include "edge/route/owner.h"

#include <errno.h>
#include <string.h>

#include "edge/proxy/edge_client.h"
#include "edge/proxy/edge.h"

void owner_init(struct owner_lookup *way, const struct owner_limits *limits)
{
        *way = (struct owner_lookup){.limits = limits};
        list_init(&way->waiting);
}

static json_t *owner_question_with_number(json_t *question, uint64_t req)
{
        if (json_object_set_new(question, "req", json_integer((json_int_t)req)) == 0)
                return question;
        json_decref(question);
        return NULL;
}

enum routes_result owner_ask(struct edge_client *c, struct owner_lookup *way, json_t *question)
{
        const struct owner_limits *l = way->limits;
        struct edge *e = c->edge;
        int r;

        if (!budget_is_left(&way->unowned, l->unowned_burst, l->unowned_per_s) || way->count >= l->asked_max) {
                json_decref(question);
                return way->count >= l->asked_max ? ROUTES_FULL : ROUTES_CROWDED;
        }
        c->x.owner_req = ++e->last_req;
        c->x.owner_lookup = way;
        list_push_back(&way->waiting, &c->x.wait);
        way->count++;
        r = process_link_send(&e->routes_link, owner_question_with_number(question, c->x.owner_req));
        if (r == 0 || r == -ENOTCONN || r == -EPIPE)
                return ROUTES_WAIT; /* if not now it is asked once the link is up again */
        owner_forget(c);
        return ROUTES_FULL;
}

void owner_forget(struct edge_client *c)
{
        if (!c->x.owner_req)
                return;
        list_remove(&c->x.wait);
        c->x.owner_lookup->count--;
        c->x.owner_lookup = NULL;
        c->x.owner_req = 0;
}

static void owner_take_answer(struct edge_client *c, struct owner_lookup *way, const json_t *msg)
{
        const char *id = json_string_value(json_object_get(msg, "id"));
        enum err_kind kind = process_link_answer_kind(msg);

        if (kind == ERR_NONE && id && sandbox_id_is_valid(str_of(id))) {
                memcpy(c->x.id, id, strlen(id) + 1);
                c->x.id_is_news = true;
        } else if (kind == ERR_NOT_FOUND) {
                (void)budget_spend(&way->unowned, way->limits->unowned_burst, way->limits->unowned_per_s);
                c->x.route_wait = WAIT_NOT_FOUND;
        } else {
                c->x.route_wait = WAIT_UNAVAILABLE;
        }
}

static struct edge_client *owner_find_question(const struct owner_lookup *way, uint64_t req)
{
        LIST_EACH (node, &way->waiting) { /* told in order: nearly always the first */
                struct edge_client *c = LIST_ENTRY(node, struct edge_client, x.wait);

                if (c->x.owner_req == req)
                        return c;
        }
        return NULL;
}

void owner_answered(struct edge *e, uint64_t req, const json_t *msg)
{
        struct edge_client *c = owner_find_question(&e->by_signature, req);
        struct owner_lookup *way;

        if (!c)
                c = owner_find_question(&e->by_token, req);
        if (!c)
                return; /* it left */
        way = c->x.owner_lookup;
        owner_forget(c);
        owner_take_answer(c, way, msg);
        edge_client_go_on(c);
}

/* Their heads are still there: each is looked at once more, and asks. */
static void owner_lookup_ask_again(struct owner_lookup *way)
{
        for (size_t n = way->count; n > 0 && !list_is_empty(&way->waiting); n--) {
                struct edge_client *c = LIST_ENTRY(way->waiting.next, struct edge_client, x.wait);

                owner_forget(c);
                edge_client_go_on(c);
        }
}

void owner_ask_again(struct edge *e)
{
        owner_lookup_ask_again(&e->by_signature);
        owner_lookup_ask_again(&e->by_token);
}
