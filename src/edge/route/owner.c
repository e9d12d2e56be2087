#include "edge/route/owner.h"

#include <errno.h>
#include <string.h>

#include "edge/route/routes.h"

void owner_init(struct owner_lookup *lookup, const struct owner_limits *limits)
{
        *lookup = (struct owner_lookup){.limits = limits};
        list_init(&lookup->waiting);
}

static json_t *owner_question_with_number(json_t *question, uint64_t req)
{
        if (json_object_set_new(question, "req", json_integer((json_int_t)req)) == 0)
                return question;
        json_decref(question);
        return NULL;
}

enum routes_result owner_ask(struct visit *v, struct owner_lookup *lookup, json_t *question)
{
        const struct owner_limits *l = lookup->limits;
        struct route_table *t = v->table;
        int r;

        if (!budget_is_left(&lookup->unowned, l->unowned_burst, l->unowned_per_s) || lookup->count >= l->asked_max) {
                json_decref(question);
                return lookup->count >= l->asked_max ? ROUTES_FULL : ROUTES_CROWDED;
        }
        visit_go(v, VISIT_OWNER);
        v->req = ++t->last_req;
        v->owner_lookup = lookup;
        list_push_back(&lookup->waiting, &v->wait);
        lookup->count++;
        r = process_link_send(&t->link, owner_question_with_number(question, v->req));
        if (r == 0 || r == -ENOTCONN || r == -EPIPE)
                return ROUTES_WAIT; /* without a link the question is sent once the link is up again */
        owner_forget(v);
        return ROUTES_FULL;
}

void owner_forget(struct visit *v)
{
        list_remove(&v->wait);
        v->owner_lookup->count--;
        v->owner_lookup = NULL;
        visit_go(v, VISIT_FREE);
}

static void owner_take_answer(struct visit *v, struct owner_lookup *lookup, const json_t *msg)
{
        const char *id = json_string_value(json_object_get(msg, "id"));
        enum err_kind kind = process_link_answer_kind(msg);

        if (kind == ERR_NONE && id && sandbox_id_is_valid(str_of(id))) {
                memcpy(v->id, id, strlen(id) + 1);
                v->id_is_news = true;
        } else if (kind == ERR_NOT_FOUND) {
                (void)budget_spend(&lookup->unowned, lookup->limits->unowned_burst, lookup->limits->unowned_per_s);
                v->route_result = WAIT_NOT_FOUND;
        } else {
                v->route_result = WAIT_UNAVAILABLE;
        }
}

static struct visit *owner_find_question(const struct owner_lookup *lookup, uint64_t req)
{
        LIST_EACH (node, &lookup->waiting) { /* control answers in order: nearly always the first */
                struct visit *v = LIST_ENTRY(node, struct visit, wait);

                if (v->req == req)
                        return v;
        }
        return NULL;
}

void owner_answered(struct route_table *t, uint64_t req, const json_t *msg)
{
        struct visit *v = owner_find_question(&t->by_signature, req);
        struct owner_lookup *lookup;

        if (!v)
                v = owner_find_question(&t->by_token, req);
        if (!v)
                return; /* the request left */
        lookup = v->owner_lookup;
        owner_forget(v);
        owner_take_answer(v, lookup, msg);
        v->ops->go_on(v);
}

/* The heads of the waiting requests are still there: each is looked at once more, and asks again. */
static void owner_lookup_ask_again(struct owner_lookup *lookup)
{
        for (size_t n = lookup->count; n > 0 && !list_is_empty(&lookup->waiting); n--) {
                struct visit *v = LIST_ENTRY(lookup->waiting.next, struct visit, wait);

                owner_forget(v);
                v->ops->go_on(v);
        }
}

void owner_ask_again(struct route_table *t)
{
        owner_lookup_ask_again(&t->by_signature);
        owner_lookup_ask_again(&t->by_token);
}
