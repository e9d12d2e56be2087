#include "edge/route/routes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "edge/proxy/edge.h"
#include "edge/proxy/proxy_exchange.h"
#include "edge/route/owner.h"
#include "edge/route/token.h"
#include "edge/route/upstream.h"
#include "edge/route/resume.h"

/* Of a form we make, and nobody's: asking for it shows whether control is there. */
#define NOBODY "i00000000000000000000"

static struct str sandbox_key(const struct routed_sandbox *s)
{
        return (struct str){s->id, SANDBOX_ID_LEN};
}

void routes_asking(struct edge *e, struct routed_sandbox *s, enum routed_sandbox_asks question)
{
        if (s->asks != ASKS_NOTHING) {
                list_remove(&s->asking);
                (*(s->asks == ASKS_RESUME ? &e->resuming_count : &e->asking_count))--;
        }
        s->asks = question;
        if (question == ASKS_NOTHING)
                return;
        list_push_back(question == ASKS_RESUME ? &e->resuming : &e->asking, &s->asking);
        (*(question == ASKS_RESUME ? &e->resuming_count : &e->asking_count))++;
        s->req = ++e->last_req;
}

static void route_ask(struct edge *e, struct routed_sandbox *s)
{
        int r;

        s->is_known = false;
        routes_asking(e, s, ASKS_ROUTE);
        r = process_link_send(&e->routes_link,
                              json_pack("{s:s, s:I, s:s}", "op", "route", "req", (json_int_t)s->req, "id", s->id));
        if (r < 0 && r != -ENOTCONN && r != -EPIPE)
                routes_asking(e, s, ASKS_NOTHING); /* the next to need it asks; otherwise once the link is up again */
}

static void visit_stop_waiting(struct edge *e, struct edge_client *c)
{
        c->x.waits_for->waiter_count--;
        e->waiter_count--;
        c->x.waits_for = NULL;
}

/* They are taken over first: resuming one may ask for other routes, and s may be forgotten to make room for them.  A
 * denial concerns those with the same credential; the others ask again. */
void routes_release_waiters(struct edge *e, struct routed_sandbox *s, enum visit_result result)
{
        uint64_t denied = s->resume_key;
        struct list now, *node;

        list_init(&now);
        while ((node = list_pop_front(&s->waiters))) {
                struct edge_client *c = LIST_ENTRY(node, struct edge_client, x.wait);

                visit_stop_waiting(e, c);
                c->x.route_wait = result == WAIT_DENIED && c->x.resume_key != denied ? WAIT_OVER : result;
                list_push_back(&now, node);
        }
        while ((node = list_pop_front(&now)))
                edge_client_go_on(LIST_ENTRY(node, struct edge_client, x.wait));
}

/* One that is being dialled hears from the engine, which knows best. */
static struct edge_client *sandbox_find_older(const struct routed_sandbox *s, uint64_t us)
{
        LIST_EACH (node, &s->live) {
                struct edge_client *c = LIST_ENTRY(node, struct edge_client, x.in_sandbox);

                if (c->x.upstream ? c->x.upstream->made_us < us : !c->x.dial_req)
                        return c;
        }
        return NULL;
}

/* It stopped then.  What runs on connections of before ends now, so that nobody can take it for a proper end; what was only
 * asked on them, and may be asked again, waits for what is.  News may be late: whoever has come since is with what runs
 * again. */
static void sandbox_cut_older(struct routed_sandbox *s, uint64_t us)
{
        struct edge_client *c;

        s->stopped_us = us;
        upstream_drop_idle(s);
        while ((c = sandbox_find_older(s, us))) {
                if (!proxy_exchange_repeats(c)) {
                        edge_client_cut(c);
                        continue;
                }
                edge_client_go(c, CLIENT_ROUTE);
                routes_wait(c, s); /* for the end of this */
        }
}

static void sandbox_cut_all(struct routed_sandbox *s)
{
        while (!list_is_empty(&s->live))
                edge_client_cut(LIST_ENTRY(s->live.next, struct edge_client, x.in_sandbox));
        upstream_drop_idle(s);
}

/* Out of the table first, so that whoever asks from now on hears "not found"; then its connections. */
void routes_gone(struct edge *e, struct routed_sandbox *s)
{
        (void)map_remove(&e->sandboxes, sandbox_key(s));
        routes_asking(e, s, ASKS_NOTHING);
        list_remove(&s->lru);
        routes_release_waiters(e, s, WAIT_NOT_FOUND);
        sandbox_cut_all(s);
        route_done(&s->route);
        free(s);
}

static bool sandbox_is_unused(const struct routed_sandbox *s)
{
        return list_is_empty(&s->live) && list_is_empty(&s->waiters);
}

/* Room for one more: the one not used for longest goes, if nothing runs on it. */
static void routes_forget_oldest(struct edge *e)
{
        LIST_EACH (node, &e->sandbox_lru) {
                struct routed_sandbox *s = LIST_ENTRY(node, struct routed_sandbox, lru);

                if (sandbox_is_unused(s)) {
                        routes_gone(e, s);
                        return;
                }
        }
}

static struct routed_sandbox *routes_add_sandbox(struct edge *e, struct str id)
{
        struct routed_sandbox *s;

        if (e->sandboxes.used >= e->limits->routes_max)
                routes_forget_oldest(e);
        if (e->sandboxes.used >= e->limits->routes_max)
                return NULL;
        s = calloc(1, sizeof(*s));
        if (!s)
                return NULL;
        memcpy(s->id, id.p, SANDBOX_ID_LEN);
        if (map_put(&e->sandboxes, id, s, NULL) < 0) {
                free(s);
                return NULL;
        }
        list_init(&s->waiters);
        list_init(&s->live);
        list_init(&s->idle);
        list_push_back(&e->sandbox_lru, &s->lru);
        return s;
}

enum routes_result routes_get(struct edge *e, struct str id, struct edge_client *c, struct routed_sandbox **ret)
{
        struct routed_sandbox *s;

        if (!sandbox_id_is_valid(id))
                return ROUTES_NOT_FOUND; /* control never made such an id */
        s = map_get(&e->sandboxes, id);
        if (s && s->is_known) {
                if (!s->route.is_running && !s->route.wakes)
                        return ROUTES_PAUSED;
                if (s->lru.next != &e->sandbox_lru) {
                        list_remove(&s->lru);
                        list_push_back(&e->sandbox_lru, &s->lru);
                }
                *ret = s;
                return s->route.is_running ? ROUTES_FOUND : ROUTES_RESUMABLE;
        }
        if (!s)
                s = routes_add_sandbox(e, id);
        if (!s || (s->asks == ASKS_NOTHING && e->asking_count >= e->limits->asking_max))
                return ROUTES_FULL;
        if (s->asks == ASKS_NOTHING)
                route_ask(e, s);
        routes_wait(c, s);
        return ROUTES_WAIT;
}

void routes_doubt(struct edge *e, struct routed_sandbox *s)
{
        if (s->asks == ASKS_NOTHING && e->asking_count < e->limits->asking_max)
                route_ask(e, s);
}

void routes_wait(struct edge_client *c, struct routed_sandbox *s)
{
        c->x.waits_for = s;
        list_push_back(&s->waiters, &c->x.wait);
        s->waiter_count++;
        c->edge->waiter_count++;
}

void routes_forget(struct edge_client *c)
{
        if (!c->x.waits_for)
                return;
        list_remove(&c->x.wait);
        visit_stop_waiting(c->edge, c);
}

void routes_hook(struct edge_client *c, struct routed_sandbox *s)
{
        if (c->x.sandbox)
                return;
        c->x.sandbox = s;
        list_push_back(&s->live, &c->x.in_sandbox);
        s->live_count++;
}

bool routes_await_port(struct edge_client *c)
{
        struct routed_sandbox *s = c->x.sandbox;

        if (c->x.awaits_port)
                return true;
        if (s->port_waiter_count >= c->edge->limits->port_waiters_max)
                return false;
        c->x.awaits_port = true;
        s->port_waiter_count++;
        return true;
}

void routes_port_opened(struct edge_client *c)
{
        if (c->x.awaits_port)
                c->x.sandbox->port_waiter_count--;
        c->x.awaits_port = false;
}

void routes_unhook(struct edge_client *c)
{
        if (!c->x.sandbox)
                return;
        routes_port_opened(c);
        list_remove(&c->x.in_sandbox);
        c->x.sandbox->live_count--;
        c->x.sandbox = NULL;
}

/* ---- what control says ---- */

void routes_learn(struct edge *e, struct routed_sandbox *s, const json_t *msg)
{
        struct err err = {0};
        struct route r;

        if (route_decode(msg, &r, &err) < 0 || strcmp(r.id, s->id) != 0) {
                log_warn("route.bad", "sandbox=%s error=\"%s\", taken for unknown", s->id, err.msg);
                routes_gone(e, s);
                return;
        }
        route_done(&s->route);
        s->route = r;
        s->is_known = true;
        if (!r.is_running && r.at_us)
                sandbox_cut_older(s, r.at_us);
        else if (!r.is_running)
                sandbox_cut_all(s);
        if (s->asks == ASKS_RESUME && r.wakes)
                return; /* it still sleeps: the answer is to come */
        routes_asking(e, s, ASKS_NOTHING);
        routes_release_waiters(e, s, WAIT_OVER);
}

/* Control cannot say.  Whoever waits hears that; what runs goes on, and the next to need the route asks again. */
static void route_failed(struct edge *e, struct routed_sandbox *s, enum err_kind kind)
{
        log_warn("route.failed", "sandbox=%s kind=%s", s->id, err_kind_name(kind));
        routes_asking(e, s, ASKS_NOTHING);
        routes_release_waiters(e, s, WAIT_UNAVAILABLE);
}

static void route_answered(struct edge *e, struct routed_sandbox *s, const json_t *msg)
{
        enum err_kind kind = process_link_answer_kind(msg);

        if (kind == ERR_NONE)
                routes_learn(e, s, json_object_get(msg, "route"));
        else if (kind == ERR_NOT_FOUND)
                routes_gone(e, s);
        else
                route_failed(e, s, kind);
}

static struct routed_sandbox *routes_find_question(const struct list *questions, uint64_t req)
{
        LIST_EACH (node, questions) { /* routes are told in order, so it is nearly always the first */
                struct routed_sandbox *s = LIST_ENTRY(node, struct routed_sandbox, asking);

                if (s->req == req)
                        return s;
        }
        return NULL;
}

static void routes_on_answer(struct edge *e, uint64_t req, const json_t *msg)
{
        struct routed_sandbox *s;

        if ((s = routes_find_question(&e->asking, req)))
                route_answered(e, s, msg);
        else if ((s = routes_find_question(&e->resuming, req)))
                resume_answered(e, s, msg);
        else
                owner_answered(e, req, msg);
}

static void routes_on_event(struct edge *e, const char *event, const json_t *msg)
{
        const json_t *route = json_object_get(msg, "route");
        const char *id = json_string_value(json_object_get(route ? route : msg, "id"));
        struct routed_sandbox *s = id ? map_get(&e->sandboxes, str_of(id)) : NULL;

        if (!s)
                return; /* never asked for, so nothing to correct */
        if (strcmp(event, "gone") == 0)
                routes_gone(e, s);
        else if (strcmp(event, "route") == 0)
                routes_learn(e, s, route);
}

static void routes_on_message(struct process_link *k, json_t *msg, int *fds, size_t nfds)
{
        struct edge *e = CONTAINER_OF(k, struct edge, routes_link);
        const char *event = json_string_value(json_object_get(msg, "event"));

        (void)fds;
        (void)nfds; /* none belong here: the channel closes them */
        if (event)
                routes_on_event(e, event, msg);
        else
                routes_on_answer(e, (uint64_t)json_integer_value(json_object_get(msg, "req")), msg);
}

/* What happened while we were not connected is not known: forget what is not in use, ask again for the rest. */
static void routes_on_up(struct process_link *k)
{
        struct edge *e = CONTAINER_OF(k, struct edge, routes_link);

        (void)process_link_send(k, json_pack("{s:s, s:i, s:s}", "op", "route", "req", 0, "id", NOBODY));
        LIST_EACH (node, &e->sandbox_lru) {
                struct routed_sandbox *s = LIST_ENTRY(node, struct routed_sandbox, lru);

                if (sandbox_is_unused(s))
                        routes_gone(e, s);
                else
                        route_ask(e, s);
        }
        owner_ask_again(e);
}

int routes_start(struct edge *e)
{
        list_init(&e->sandbox_lru);
        list_init(&e->asking);
        list_init(&e->resuming);
        owner_init(&e->by_signature, &e->limits->signed_urls);
        owner_init(&e->by_token, &e->limits->tokens);
        e->tokens = calloc(TOKENS_KEPT, sizeof(*e->tokens));
        e->routes_link.loop = e->loop;
        e->routes_link.name = "control";
        e->routes_link.path = conf_path(e->conf, "run/routes.sock");
        e->routes_link.on_up = routes_on_up;
        e->routes_link.on_message = routes_on_message;
        if (!e->routes_link.path || !e->tokens)
                return -ENOMEM;
        process_link_start(&e->routes_link);
        return 0;
}

void routes_done(struct edge *e)
{
        process_link_done(&e->routes_link);
        while (!list_is_empty(&e->sandbox_lru))
                routes_gone(e, LIST_ENTRY(e->sandbox_lru.next, struct routed_sandbox, lru));
        map_done(&e->sandboxes);
        free(e->tokens);
        e->tokens = NULL;
}
