#include "control/feed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "io/channel.h"
#include "model/err_json.h"

struct edge {
        struct list node;
        struct feed *feed;
        struct channel *channel; /* owned */
        struct list wakes;       /* of struct feed_wake, owned */
        size_t wake_count;
};

static void wake_free(struct feed_wake *w)
{
        list_remove(&w->node);
        w->edge->wake_count--;
        json_decref(w->req);
        free(w);
}

static void edge_free(struct edge *e)
{
        while (!list_is_empty(&e->wakes)) {
                struct feed_wake *w = LIST_ENTRY(e->wakes.next, struct feed_wake, node);

                e->feed->ops->forget(w, e->feed->arg);
                wake_free(w);
        }
        list_remove(&e->node);
        e->feed->edge_count--;
        channel_free(e->channel);
        free(e);
}

static void on_close(struct channel *ch, const char *reason, void *arg)
{
        (void)ch;
        log_debug("feed.edge_left", "reason=\"%s\"", reason);
        edge_free(arg);
}

static json_t *refusal(json_t *req, enum err_kind kind, const char *why)
{
        struct err err;

        err_set(&err, kind, "%s", why);
        return json_pack("{s:O*,s:o}", "req", req, "error", err_encode(&err));
}

static void answer(struct edge *e, json_t *msg)
{
        if (channel_send(e->channel, msg, NULL, 0) < 0)
                edge_free(e); /* it would wait for ever: it may ask again on a new channel */
}

static void answer_route(struct edge *e, const char *id, json_t *req)
{
        json_t *route = e->feed->ops->find(id, e->feed->arg);

        answer(e, route ? json_pack("{s:O*,s:b,s:o}", "req", req, "ok", 1, "route", route)
                        : refusal(req, ERR_NOT_FOUND, "no such sandbox"));
}

static void answer_owner(struct edge *e, json_t *req, const char *id, const char *why_not)
{
        answer(e,
               id ? json_pack("{s:O*,s:b,s:s}", "req", req, "ok", 1, "id", id) : refusal(req, ERR_NOT_FOUND, why_not));
}

static void answer_token(struct edge *e, const json_t *msg, json_t *req)
{
        const json_t *token = json_object_get(msg, "access_token");
        struct str text = {json_string_value(token), json_string_length(token)};

        answer_owner(e, req, text.n ? e->feed->ops->bearer(text, e->feed->arg) : NULL, "nobody has it");
}

static void answer_signed(struct edge *e, const json_t *msg, json_t *req)
{
        const char *query = json_string_value(json_object_get(msg, "query"));
        const char *operation = json_string_value(json_object_get(msg, "operation"));
        const char *id = query && operation ? e->feed->ops->signer(query, operation, e->feed->arg) : NULL;

        answer_owner(e, req, id, "nobody signed it");
}

void feed_wake_answer(struct feed_wake *w, json_t *route, const struct err *err)
{
        struct edge *e = w->edge;
        json_t *msg;

        if (route)
                msg = json_pack("{s:O*,s:b,s:o}", "req", w->req, "ok", 1, "route", route);
        else
                msg = refusal(w->req, err ? err->kind : ERR_INTERNAL, err ? err->msg : "out of memory");
        wake_free(w);
        answer(e, msg);
}

static void take_wake(struct edge *e, const json_t *msg, json_t *req)
{
        struct feed_wake *w = e->wake_count < FEED_WAKES_MAX ? calloc(1, sizeof(*w)) : NULL;

        if (!w) {
                answer(e, refusal(req, ERR_UNAVAILABLE, "too many sandboxes are being woken"));
                return;
        }
        w->edge = e;
        w->req = json_incref(req);
        list_push_back(&e->wakes, &w->node);
        e->wake_count++;
        e->feed->ops->wake(w, msg, e->feed->arg);
}

static void on_message(struct channel *ch, json_t *msg, int *fds, size_t nfds, void *arg)
{
        const char *op = json_string_value(json_object_get(msg, "op"));
        const char *id = json_string_value(json_object_get(msg, "id"));
        json_t *req = json_object_get(msg, "req");
        struct edge *e = arg;

        (void)ch, (void)fds, (void)nfds; /* none are expected; they get closed */
        if (op && id && strcmp(op, "route") == 0)
                answer_route(e, id, req);
        else if (op && id && strcmp(op, "wake") == 0)
                take_wake(e, msg, req);
        else if (op && strcmp(op, "signed") == 0)
                answer_signed(e, msg, req);
        else if (op && strcmp(op, "token") == 0)
                answer_token(e, msg, req);
        else
                answer(e,
                       refusal(req, ERR_INVALID, "expected op 'signed' or 'token', or 'route' or 'wake' with an id"));
}

int feed_accept(struct feed *f, int fd)
{
        static const struct channel_ops ops = {.on_message = on_message, .on_close = on_close};
        struct edge *e;
        int r;

        if (f->edge_count >= FEED_EDGES_MAX) {
                close_fd(&fd);
                return -EMFILE;
        }
        e = calloc(1, sizeof(*e));
        if (!e) {
                close_fd(&fd);
                return -ENOMEM;
        }
        e->feed = f;
        list_init(&e->wakes);
        r = channel_create(f->loop, fd, &ops, e, &e->channel);
        if (r < 0) {
                free(e);
                return r;
        }
        list_push_back(&f->edges, &e->node);
        f->edge_count++;
        return 0;
}

static void on_conn(struct listener *ln, int fd)
{
        int r = feed_accept(ln->arg, fd);

        if (r < 0)
                log_warn("feed.accept", "failed=\"%s\"", strerror(-r));
}

void feed_init(struct feed *f, struct loop *loop, const struct feed_ops *ops, void *arg)
{
        *f = (struct feed){.loop = loop, .ops = ops, .arg = arg, .listener.io.fd = -1};
        list_init(&f->edges);
}

int feed_listen(struct feed *f, int fd)
{
        return listener_start(&f->listener, f->loop, fd, on_conn, f);
}

void feed_done(struct feed *f)
{
        if (f->listener.io.loop)
                listener_stop(&f->listener);
        while (f->edges.next && f->edges.next != &f->edges)
                edge_free(LIST_ENTRY(f->edges.next, struct edge, node));
}

/* An edge that cannot be told would go on with what it knows: it is cut off, and starts with an empty table. */
static void tell_all(struct feed *f, json_t *msg)
{
        LIST_EACH (node, &f->edges) {
                struct edge *e = LIST_ENTRY(node, struct edge, node);
                int r = channel_send(e->channel, json_incref(msg), NULL, 0);

                if (r < 0 && r != -EPIPE) {
                        log_warn("feed.edge_dropped", "reason=\"%s\"", strerror(-r));
                        edge_free(e);
                }
        }
        json_decref(msg);
}

void feed_route(struct feed *f, json_t *route)
{
        tell_all(f, json_pack("{s:s,s:o}", "event", "route", "route", route));
}

void feed_gone(struct feed *f, const char *id)
{
        tell_all(f, json_pack("{s:s,s:s}", "event", "gone", "id", id));
}
