#include "edge/routes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "edge/client.h"
#include "edge/edge.h"
#include "edge/upstream.h"

/* Of a form we make, and nobody's: asking for it shows whether control is there. */
#define NOBODY "i00000000000000000000"

static struct str sandbox_key(const struct sandbox *s)
{
        return (struct str){s->id, SANDBOX_ID_LEN};
}

static void stop_asking(struct edge *e, struct sandbox *s)
{
        if (!list_is_hooked(&s->asking))
                return;
        list_remove(&s->asking);
        e->asking_count--;
}

static void ask(struct edge *e, struct sandbox *s)
{
        int r;

        s->is_known = false;
        if (!list_is_hooked(&s->asking)) {
                list_push_back(&e->asking, &s->asking);
                e->asking_count++;
        }
        s->req = ++e->last_req;
        r = link_send(&e->routes_link,
                      json_pack("{s:s, s:I, s:s}", "op", "route", "req", (json_int_t)s->req, "id", s->id));
        if (r < 0 && r != -ENOTCONN && r != -EPIPE)
                stop_asking(e, s); /* the next to need it asks; otherwise it is asked once the link is up again */
}

/* They are taken over first: resuming one may ask for other routes, and s may be forgotten to make room for them. */
static void resume_waiters(struct sandbox *s, enum wait_result result)
{
        struct list now, *node;

        list_init(&now);
        while ((node = list_pop_front(&s->waiters)))
                list_push_back(&now, node);
        while ((node = list_pop_front(&now))) {
                struct client *c = LIST_ENTRY(node, struct client, x.wait);

                c->x.waits_for = NULL;
                c->x.route_wait = result;
                client_resume(c);
        }
}

/* Out of the table first, so that whoever asks from now on hears "not found"; then its connections. */
static void sandbox_gone(struct edge *e, struct sandbox *s)
{
        (void)map_remove(&e->sandboxes, sandbox_key(s));
        stop_asking(e, s);
        list_remove(&s->lru);
        resume_waiters(s, WAIT_NOT_FOUND);
        while (!list_is_empty(&s->live))
                client_cut(LIST_ENTRY(s->live.next, struct client, x.in_sandbox));
        upstream_drop_idle(s);
        route_done(&s->route);
        free(s);
}

static bool is_unused(const struct sandbox *s)
{
        return list_is_empty(&s->live) && list_is_empty(&s->waiters);
}

/* Room for one more: the one not used for longest goes, if nothing runs on it. */
static void forget_oldest(struct edge *e)
{
        LIST_EACH (node, &e->sandbox_lru) {
                struct sandbox *s = LIST_ENTRY(node, struct sandbox, lru);

                if (is_unused(s)) {
                        sandbox_gone(e, s);
                        return;
                }
        }
}

static struct sandbox *sandbox_create(struct edge *e, struct str id)
{
        struct sandbox *s;

        if (e->sandboxes.used >= e->limits->routes_max)
                forget_oldest(e);
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

enum routes_result routes_get(struct edge *e, struct str id, struct client *c, struct sandbox **ret)
{
        struct sandbox *s;

        if (!sandbox_id_is_valid(id))
                return ROUTES_NOT_FOUND; /* control never made such an id */
        s = map_get(&e->sandboxes, id);
        if (s && s->is_known) {
                if (!s->route.is_running)
                        return ROUTES_NOT_FOUND;
                if (s->lru.next != &e->sandbox_lru) {
                        list_remove(&s->lru);
                        list_push_back(&e->sandbox_lru, &s->lru);
                }
                *ret = s;
                return ROUTES_FOUND;
        }
        if (!s)
                s = sandbox_create(e, id);
        if (!s || (!list_is_hooked(&s->asking) && e->asking_count >= e->limits->asking_max))
                return ROUTES_FULL;
        if (!list_is_hooked(&s->asking))
                ask(e, s);
        c->x.waits_for = s;
        list_push_back(&s->waiters, &c->x.wait);
        return ROUTES_WAIT;
}

void routes_forget(struct client *c)
{
        if (!c->x.waits_for)
                return;
        list_remove(&c->x.wait);
        c->x.waits_for = NULL;
}

void routes_hook(struct client *c, struct sandbox *s)
{
        if (c->x.sandbox)
                return;
        c->x.sandbox = s;
        list_push_back(&s->live, &c->x.in_sandbox);
        s->live_count++;
}

void routes_unhook(struct client *c)
{
        if (!c->x.sandbox)
                return;
        list_remove(&c->x.in_sandbox);
        c->x.sandbox->live_count--;
        c->x.sandbox = NULL;
}

/* ---- what control says ---- */

static void learn(struct edge *e, struct sandbox *s, const json_t *msg)
{
        struct err err = {0};
        struct route r;

        if (route_decode(msg, &r, &err) < 0 || strcmp(r.id, s->id) != 0) {
                log_warn("route.bad", "sandbox=%s error=\"%s\", taken for unknown", s->id, err.msg);
                sandbox_gone(e, s);
                return;
        }
        route_done(&s->route);
        s->route = r;
        s->is_known = true;
        stop_asking(e, s);
        if (!r.is_running) { /* paused or ending: what runs on it ends now, as when it is gone */
                sandbox_gone(e, s);
                return;
        }
        resume_waiters(s, WAIT_OVER);
}

/* Control cannot say.  Whoever waits hears that; what runs goes on, and the next to need the route asks again. */
static void answer_failed(struct edge *e, struct sandbox *s, enum err_kind kind)
{
        log_warn("route.failed", "sandbox=%s kind=%s", s->id, err_kind_name(kind));
        stop_asking(e, s);
        resume_waiters(s, WAIT_UNAVAILABLE);
}

static void on_answer(struct edge *e, uint64_t req, const json_t *msg)
{
        LIST_EACH (node, &e->asking) { /* answers come in order, so it is nearly always the first */
                struct sandbox *s = LIST_ENTRY(node, struct sandbox, asking);
                enum err_kind kind;

                if (s->req != req)
                        continue;
                kind = link_answer_kind(msg);
                if (kind == ERR_NONE) {
                        learn(e, s, json_object_get(msg, "route"));
                } else if (kind == ERR_NOT_FOUND) {
                        sandbox_gone(e, s);
                } else {
                        answer_failed(e, s, kind);
                }
                return;
        }
}

static void on_event(struct edge *e, const char *event, const json_t *msg)
{
        const json_t *route = json_object_get(msg, "route");
        const char *id = json_string_value(json_object_get(route ? route : msg, "id"));
        struct sandbox *s = id ? map_get(&e->sandboxes, str_of(id)) : NULL;

        if (!s)
                return; /* never asked for, so nothing to correct */
        if (strcmp(event, "gone") == 0)
                sandbox_gone(e, s);
        else if (strcmp(event, "route") == 0)
                learn(e, s, route);
}

static void on_message(struct link *k, json_t *msg, int *fds, size_t nfds)
{
        struct edge *e = CONTAINER_OF(k, struct edge, routes_link);
        const char *event = json_string_value(json_object_get(msg, "event"));

        (void)fds;
        (void)nfds; /* none belong here: the channel closes them */
        if (event)
                on_event(e, event, msg);
        else
                on_answer(e, (uint64_t)json_integer_value(json_object_get(msg, "req")), msg);
}

/* What happened while we were not connected is not known: forget what is not in use, ask again for the rest. */
static void on_up(struct link *k)
{
        struct edge *e = CONTAINER_OF(k, struct edge, routes_link);

        (void)link_send(k, json_pack("{s:s, s:i, s:s}", "op", "route", "req", 0, "id", NOBODY));
        LIST_EACH (node, &e->sandbox_lru) {
                struct sandbox *s = LIST_ENTRY(node, struct sandbox, lru);

                if (is_unused(s))
                        sandbox_gone(e, s);
                else
                        ask(e, s);
        }
}

int routes_start(struct edge *e)
{
        list_init(&e->sandbox_lru);
        list_init(&e->asking);
        e->routes_link.loop = e->loop;
        e->routes_link.name = "control";
        e->routes_link.path = conf_path(e->conf, "run/routes.sock");
        e->routes_link.on_up = on_up;
        e->routes_link.on_message = on_message;
        if (!e->routes_link.path)
                return -ENOMEM;
        link_start(&e->routes_link);
        return 0;
}

void routes_done(struct edge *e)
{
        link_done(&e->routes_link);
        while (!list_is_empty(&e->sandbox_lru))
                sandbox_gone(e, LIST_ENTRY(e->sandbox_lru.next, struct sandbox, lru));
        map_done(&e->sandboxes);
}
