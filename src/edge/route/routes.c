#include "edge/route/routes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "edge/route/owner.h"
#include "edge/route/resume.h"
#include "edge/route/token.h"
#include "edge/route/upstream.h"
#include "model/conf.h"

/* A valid id that no sandbox has: the answer to a question about it shows that control is there. */
#define NOBODY "i00000000000000000000"

static struct str sandbox_key(const struct routed_sandbox *s)
{
        return (struct str){s->id, SANDBOX_ID_LEN};
}

void routes_asking(struct route_table *t, struct routed_sandbox *s, enum routed_sandbox_asks question)
{
        if (s->asks != ASKS_NOTHING) {
                list_remove(&s->asking);
                (*(s->asks == ASKS_RESUME ? &t->resuming_count : &t->asking_count))--;
        }
        s->asks = question;
        if (question == ASKS_NOTHING)
                return;
        list_push_back(question == ASKS_RESUME ? &t->resuming : &t->asking, &s->asking);
        (*(question == ASKS_RESUME ? &t->resuming_count : &t->asking_count))++;
        s->req = ++t->last_req;
}

static void route_ask(struct route_table *t, struct routed_sandbox *s)
{
        int r;

        s->is_known = false;
        routes_asking(t, s, ASKS_ROUTE);
        r = process_link_send(&t->link,
                              json_pack("{s:s, s:I, s:s}", "op", "route", "req", (json_int_t)s->req, "id", s->id));
        if (r < 0 && r != -ENOTCONN && r != -EPIPE)
                routes_asking(
                        t, s,
                        ASKS_NOTHING); /* the next request asks again; without a link the question is sent once it is up */
}

static void visit_stop_waiting(struct visit *v)
{
        v->waits_for->waiter_count--;
        v->table->waiter_count--;
        v->waits_for = NULL;
        visit_go(v, VISIT_FREE);
}

/* The waiters are moved to a list of their own first: a visit that goes on may ask for other routes, and s may be forgotten to
 * make room for them.  A denial concerns the visits with the same credential; the others ask again. */
void routes_release_waiters(struct routed_sandbox *s, enum wait_result result)
{
        uint64_t denied = s->resume_key;
        struct list now, *node;

        list_init(&now);
        while ((node = list_pop_front(&s->waiters))) {
                struct visit *v = LIST_ENTRY(node, struct visit, wait);

                visit_stop_waiting(v);
                v->route_result = result == WAIT_DENIED && v->resume_key != denied ? WAIT_OVER : result;
                list_push_back(&now, node);
        }
        while ((node = list_pop_front(&now))) {
                struct visit *v = LIST_ENTRY(node, struct visit, wait);

                v->ops->go_on(v);
        }
}

/* A visit whose connection is older than that, or which has none and does not wait for the engine's answer. */
static struct visit *sandbox_find_older(const struct routed_sandbox *s, uint64_t us)
{
        LIST_EACH (node, &s->live) {
                struct visit *v = LIST_ENTRY(node, struct visit, in_sandbox);

                if (v->upstream ? v->upstream->made_us < us : v->state != VISIT_SOCKET)
                        return v;
        }
        return NULL;
}

/* The sandbox stopped at that time.  Exchanges on older connections are cut, so that nobody takes it for a proper end.  Requests
 * that were only sent on them, and may be repeated, wait for the next route.  The news may be late: connections that were made
 * since then lead to the sandbox as it runs now, and stay. */
static void sandbox_cut_older(struct routed_sandbox *s, uint64_t us)
{
        struct visit *v;

        s->stopped_us = us;
        upstream_drop_idle(s);
        while ((v = sandbox_find_older(s, us))) {
                if (v->ops->repeat(v))
                        routes_wait(v, s);
                else
                        v->ops->cut(v);
        }
}

static void sandbox_cut_all(struct routed_sandbox *s)
{
        while (!list_is_empty(&s->live)) {
                struct visit *v = LIST_ENTRY(s->live.next, struct visit, in_sandbox);

                v->ops->cut(v);
        }
        upstream_drop_idle(s);
}

/* The sandbox leaves the table first, so that requests from now on are answered "not found"; then its connections are cut. */
void routes_gone(struct route_table *t, struct routed_sandbox *s)
{
        (void)map_remove(&t->sandboxes, sandbox_key(s));
        routes_asking(t, s, ASKS_NOTHING);
        list_remove(&s->lru);
        routes_release_waiters(s, WAIT_NOT_FOUND);
        sandbox_cut_all(s);
        route_done(&s->route);
        free(s);
}

static bool sandbox_is_unused(const struct routed_sandbox *s)
{
        return list_is_empty(&s->live) && list_is_empty(&s->waiters);
}

/* Make room for one more: of the sandboxes without requests, forget the one not used for longest. */
static void routes_forget_oldest(struct route_table *t)
{
        LIST_EACH (node, &t->lru) {
                struct routed_sandbox *s = LIST_ENTRY(node, struct routed_sandbox, lru);

                if (sandbox_is_unused(s)) {
                        routes_gone(t, s);
                        return;
                }
        }
}

static struct routed_sandbox *routes_add_sandbox(struct route_table *t, struct str id)
{
        struct routed_sandbox *s;

        if (t->sandboxes.used >= t->limits->routes_max)
                routes_forget_oldest(t);
        if (t->sandboxes.used >= t->limits->routes_max)
                return NULL;
        s = calloc(1, sizeof(*s));
        if (!s)
                return NULL;
        memcpy(s->id, id.p, SANDBOX_ID_LEN);
        if (map_put(&t->sandboxes, id, s, NULL) < 0) {
                free(s);
                return NULL;
        }
        list_init(&s->waiters);
        list_init(&s->live);
        list_init(&s->idle);
        list_push_back(&t->lru, &s->lru);
        return s;
}

enum routes_result routes_get(struct route_table *t, struct str id, struct visit *v, struct routed_sandbox **ret)
{
        struct routed_sandbox *s;

        if (!sandbox_id_is_valid(id))
                return ROUTES_NOT_FOUND; /* control never made such an id */
        s = map_get(&t->sandboxes, id);
        if (s && s->is_known) {
                if (!s->route.is_running && !s->route.resumes)
                        return ROUTES_PAUSED;
                if (s->lru.next != &t->lru) {
                        list_remove(&s->lru);
                        list_push_back(&t->lru, &s->lru);
                }
                *ret = s;
                return s->route.is_running ? ROUTES_FOUND : ROUTES_RESUMABLE;
        }
        if (!s)
                s = routes_add_sandbox(t, id);
        if (!s || (s->asks == ASKS_NOTHING && t->asking_count >= t->limits->asking_max))
                return ROUTES_FULL;
        if (s->asks == ASKS_NOTHING)
                route_ask(t, s);
        routes_wait(v, s);
        return ROUTES_WAIT;
}

void routes_doubt(struct route_table *t, struct routed_sandbox *s)
{
        if (s->asks == ASKS_NOTHING && t->asking_count < t->limits->asking_max)
                route_ask(t, s);
}

void routes_wait(struct visit *v, struct routed_sandbox *s)
{
        visit_go(v, VISIT_ROUTE);
        v->waits_for = s;
        list_push_back(&s->waiters, &v->wait);
        s->waiter_count++;
        v->table->waiter_count++;
}

void routes_forget(struct visit *v)
{
        list_remove(&v->wait);
        visit_stop_waiting(v);
}

void routes_hook(struct visit *v, struct routed_sandbox *s)
{
        if (v->sandbox)
                return;
        v->sandbox = s;
        list_push_back(&s->live, &v->in_sandbox);
        s->live_count++;
}

bool routes_await_port(struct visit *v)
{
        struct routed_sandbox *s = v->sandbox;

        if (v->awaits_port)
                return true;
        if (s->port_waiter_count >= v->table->limits->port_waiters_max)
                return false;
        v->awaits_port = true;
        s->port_waiter_count++;
        return true;
}

void routes_port_opened(struct visit *v)
{
        if (v->awaits_port)
                v->sandbox->port_waiter_count--;
        v->awaits_port = false;
}

void routes_unhook(struct visit *v)
{
        if (!v->sandbox)
                return;
        routes_port_opened(v);
        list_remove(&v->in_sandbox);
        v->sandbox->live_count--;
        v->sandbox = NULL;
}

/* ---- what control says ---- */

void routes_learn(struct route_table *t, struct routed_sandbox *s, const json_t *msg)
{
        struct err err = {0};
        struct route r;

        if (route_decode(msg, &r, &err) < 0 || strcmp(r.id, s->id) != 0) {
                log_warn("route.bad", "sandbox=%s error=\"%s\", taken for unknown", s->id, err.msg);
                routes_gone(t, s);
                return;
        }
        route_done(&s->route);
        s->route = r;
        s->is_known = true;
        if (!r.is_running && r.at_us)
                sandbox_cut_older(s, r.at_us);
        else if (!r.is_running)
                sandbox_cut_all(s);
        if (s->asks == ASKS_RESUME && r.resumes)
                return; /* the sandbox is still paused: the answer to the resume is to come */
        routes_asking(t, s, ASKS_NOTHING);
        routes_release_waiters(s, WAIT_OVER);
}

/* Control cannot tell the route.  The waiting requests are told so; running ones go on, and the next request asks again. */
static void route_failed(struct route_table *t, struct routed_sandbox *s, enum err_kind kind)
{
        log_warn("route.failed", "sandbox=%s kind=%s", s->id, err_kind_name(kind));
        routes_asking(t, s, ASKS_NOTHING);
        routes_release_waiters(s, WAIT_UNAVAILABLE);
}

static void route_answered(struct route_table *t, struct routed_sandbox *s, const json_t *msg)
{
        enum err_kind kind = process_link_answer_kind(msg);

        if (kind == ERR_NONE)
                routes_learn(t, s, json_object_get(msg, "route"));
        else if (kind == ERR_NOT_FOUND)
                routes_gone(t, s);
        else
                route_failed(t, s, kind);
}

static struct routed_sandbox *routes_find_question(const struct list *questions, uint64_t req)
{
        LIST_EACH (node, questions) { /* control answers in order: nearly always the first */
                struct routed_sandbox *s = LIST_ENTRY(node, struct routed_sandbox, asking);

                if (s->req == req)
                        return s;
        }
        return NULL;
}

static void routes_on_answer(struct route_table *t, uint64_t req, const json_t *msg)
{
        struct routed_sandbox *s;

        if ((s = routes_find_question(&t->asking, req)))
                route_answered(t, s, msg);
        else if ((s = routes_find_question(&t->resuming, req)))
                resume_answered(t, s, msg);
        else
                owner_answered(t, req, msg);
}

static void routes_on_event(struct route_table *t, const char *event, const json_t *msg)
{
        const json_t *route = json_object_get(msg, "route");
        const char *id = json_string_value(json_object_get(route ? route : msg, "id"));
        struct routed_sandbox *s = id ? map_get(&t->sandboxes, str_of(id)) : NULL;

        if (!s)
                return; /* this edge never asked for it, so there is nothing to correct */
        if (strcmp(event, "gone") == 0)
                routes_gone(t, s);
        else if (strcmp(event, "route") == 0)
                routes_learn(t, s, route);
}

static void routes_on_message(struct process_link *k, json_t *msg, int *fds, size_t nfds)
{
        struct route_table *t = CONTAINER_OF(k, struct route_table, link);
        const char *event = json_string_value(json_object_get(msg, "event"));

        (void)fds;
        (void)nfds; /* none are expected: the channel closes them */
        if (event)
                routes_on_event(t, event, msg);
        else
                routes_on_answer(t, (uint64_t)json_integer_value(json_object_get(msg, "req")), msg);
}

/* What happened while the link was down is not known: forget the sandboxes that are not in use, ask again for the others. */
static void routes_on_up(struct process_link *k)
{
        struct route_table *t = CONTAINER_OF(k, struct route_table, link);

        (void)process_link_send(k, json_pack("{s:s, s:i, s:s}", "op", "route", "req", 0, "id", NOBODY));
        LIST_EACH (node, &t->lru) {
                struct routed_sandbox *s = LIST_ENTRY(node, struct routed_sandbox, lru);

                if (sandbox_is_unused(s))
                        routes_gone(t, s);
                else
                        route_ask(t, s);
        }
        owner_ask_again(t);
}

int routes_start(struct route_table *t, struct loop *loop, const struct conf *conf, const struct edge_limits *limits)
{
        t->limits = limits;
        list_init(&t->lru);
        list_init(&t->asking);
        list_init(&t->resuming);
        owner_init(&t->by_signature, &t->limits->signed_urls);
        owner_init(&t->by_token, &t->limits->tokens);
        t->tokens = calloc(TOKENS_KEPT, sizeof(*t->tokens));
        t->link.loop = loop;
        t->link.name = "control";
        t->link.path = conf_path(conf, "run/routes.sock");
        t->link.on_up = routes_on_up;
        t->link.on_message = routes_on_message;
        if (!t->link.path || !t->tokens)
                return -ENOMEM;
        process_link_start(&t->link);
        return 0;
}

void routes_done(struct route_table *t)
{
        process_link_done(&t->link);
        while (!list_is_empty(&t->lru))
                routes_gone(t, LIST_ENTRY(t->lru.next, struct routed_sandbox, lru));
        map_done(&t->sandboxes);
        free(t->tokens);
        t->tokens = NULL;
}
