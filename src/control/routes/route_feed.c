#include "control/routes/route_feed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "io/channel.h"
#include "model/err_json.h"

struct edge_channel {
        struct list node;
        struct route_feed *feed;
        struct channel *channel; /* owned */
        struct list resumes;     /* of struct edge_resume, owned */
        size_t resume_count;
};

static void edge_resume_free(struct edge_resume *w)
{
        list_remove(&w->node);
        w->edge->resume_count--;
        json_decref(w->req);
        free(w);
}

static void edge_channel_free(struct edge_channel *e)
{
        while (!list_is_empty(&e->resumes)) {
                struct edge_resume *w = LIST_ENTRY(e->resumes.next, struct edge_resume, node);

                e->feed->ops->forget_resume(w, e->feed->arg);
                edge_resume_free(w);
        }
        list_remove(&e->node);
        e->feed->edge_count--;
        channel_free(e->channel);
        free(e);
}

static void edge_channel_closed(struct channel *ch, const char *reason, void *arg)
{
        (void)ch;
        log_debug("feed.edge_left", "reason=\"%s\"", reason);
        edge_channel_free(arg);
}

static json_t *edge_refusal(json_t *req, enum err_kind kind, const char *why)
{
        struct err err;

        err_set(&err, kind, "%s", why);
        return json_pack("{s:O*,s:o}", "req", req, "error", err_encode(&err));
}

static void edge_channel_answer(struct edge_channel *e, json_t *msg)
{
        if (channel_send(e->channel, msg, NULL, 0) < 0)
                edge_channel_free(e); /* else the edge would wait for ever; it may ask again on a new channel */
}

static void answer_route(struct edge_channel *e, const char *id, json_t *req)
{
        json_t *route = e->feed->ops->find(id, e->feed->arg);

        edge_channel_answer(e, route ? json_pack("{s:O*,s:b,s:o}", "req", req, "ok", 1, "route", route)
                                     : edge_refusal(req, ERR_NOT_FOUND, "no such sandbox"));
}

static void answer_owner(struct edge_channel *e, json_t *req, const char *id, const char *why_not)
{
        edge_channel_answer(e, id ? json_pack("{s:O*,s:b,s:s}", "req", req, "ok", 1, "id", id)
                                  : edge_refusal(req, ERR_NOT_FOUND, why_not));
}

static void answer_token(struct edge_channel *e, const json_t *msg, json_t *req)
{
        const json_t *token = json_object_get(msg, "access_token");
        struct str text = {json_string_value(token), json_string_length(token)};

        answer_owner(e, req, text.n ? e->feed->ops->find_token(text, e->feed->arg) : NULL, "no sandbox has that token");
}

static void answer_signed(struct edge_channel *e, const json_t *msg, json_t *req)
{
        const char *query = json_string_value(json_object_get(msg, "query"));
        const char *operation = json_string_value(json_object_get(msg, "operation"));
        const char *id = query && operation ? e->feed->ops->find_signature(query, operation, e->feed->arg) : NULL;

        answer_owner(e, req, id, "no sandbox's token signed that URL");
}

void edge_resume_answer(struct edge_resume *w, json_t *route, const struct err *err)
{
        struct edge_channel *e = w->edge;
        json_t *msg;

        if (route)
                msg = json_pack("{s:O*,s:b,s:o}", "req", w->req, "ok", 1, "route", route);
        else
                msg = edge_refusal(w->req, err ? err->kind : ERR_INTERNAL, err ? err->msg : "out of memory");
        edge_resume_free(w);
        edge_channel_answer(e, msg);
}

static void edge_resume_begin(struct edge_channel *e, const json_t *msg, json_t *req)
{
        struct edge_resume *w = e->resume_count < EDGE_RESUMES_MAX ? calloc(1, sizeof(*w)) : NULL;

        if (!w) {
                edge_channel_answer(e, edge_refusal(req, ERR_UNAVAILABLE, "too many sandboxes are being resumed"));
                return;
        }
        w->edge = e;
        w->req = json_incref(req);
        list_push_back(&e->resumes, &w->node);
        e->resume_count++;
        e->feed->ops->resume(w, msg, e->feed->arg);
}

static void edge_channel_message(struct channel *ch, json_t *msg, int *fds, size_t nfds, void *arg)
{
        const char *op = json_string_value(json_object_get(msg, "op"));
        const char *id = json_string_value(json_object_get(msg, "id"));
        json_t *req = json_object_get(msg, "req");
        struct edge_channel *e = arg;

        (void)ch, (void)fds, (void)nfds; /* fds are not expected and get closed */
        if (op && id && strcmp(op, "route") == 0)
                answer_route(e, id, req);
        else if (op && id && strcmp(op, "resume") == 0)
                edge_resume_begin(e, msg, req);
        else if (op && strcmp(op, "signed") == 0)
                answer_signed(e, msg, req);
        else if (op && strcmp(op, "token") == 0)
                answer_token(e, msg, req);
        else
                edge_channel_answer(e,
                                    edge_refusal(req, ERR_INVALID,
                                                 "expected op 'signed' or 'token', or 'route' or 'resume' with an id"));
}

int route_feed_accept(struct route_feed *f, int fd)
{
        static const struct channel_ops ops = {.on_message = edge_channel_message, .on_close = edge_channel_closed};
        struct edge_channel *e;
        int r;

        if (f->edge_count >= ROUTE_FEED_EDGES_MAX) {
                close_fd(&fd);
                return -EMFILE;
        }
        e = calloc(1, sizeof(*e));
        if (!e) {
                close_fd(&fd);
                return -ENOMEM;
        }
        e->feed = f;
        list_init(&e->resumes);
        r = channel_create(f->loop, fd, &ops, e, &e->channel);
        if (r < 0) {
                free(e);
                return r;
        }
        list_push_back(&f->edges, &e->node);
        f->edge_count++;
        return 0;
}

static void edge_connected(struct listener *ln, int fd)
{
        int r = route_feed_accept(ln->arg, fd);

        if (r < 0)
                log_warn("feed.accept", "failed=\"%s\"", strerror(-r));
}

void route_feed_init(struct route_feed *f, struct loop *loop, const struct route_feed_ops *ops, void *arg)
{
        *f = (struct route_feed){.loop = loop, .ops = ops, .arg = arg, .listener.io.fd = -1};
        list_init(&f->edges);
}

int route_feed_listen(struct route_feed *f, int fd)
{
        return listener_start(&f->listener, f->loop, fd, edge_connected, f);
}

void route_feed_done(struct route_feed *f)
{
        if (f->listener.io.loop)
                listener_stop(&f->listener);
        while (f->edges.next && f->edges.next != &f->edges)
                edge_channel_free(LIST_ENTRY(f->edges.next, struct edge_channel, node));
}

/* An edge that cannot be told would go on with old routes: it is cut off, and starts with an empty table. */
static void route_feed_tell_all(struct route_feed *f, json_t *msg)
{
        LIST_EACH (node, &f->edges) {
                struct edge_channel *e = LIST_ENTRY(node, struct edge_channel, node);
                int r = channel_send(e->channel, json_incref(msg), NULL, 0);

                if (r < 0 && r != -EPIPE) {
                        log_warn("feed.edge_dropped", "reason=\"%s\"", strerror(-r));
                        edge_channel_free(e);
                }
        }
        json_decref(msg);
}

void route_feed_tell_changed(struct route_feed *f, json_t *route)
{
        route_feed_tell_all(f, json_pack("{s:s,s:o}", "event", "route", "route", route));
}

void route_feed_tell_gone(struct route_feed *f, const char *id)
{
        route_feed_tell_all(f, json_pack("{s:s,s:s}", "event", "gone", "id", id));
}
