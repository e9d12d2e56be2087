#include "control/feed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "io/channel.h"

struct edge {
        struct list node;
        struct feed *feed;
        struct channel *channel; /* owned */
};

static void edge_free(struct edge *e)
{
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

static json_t *answer_to(const struct feed *f, const json_t *msg)
{
        const char *op = json_string_value(json_object_get(msg, "op"));
        const char *id = json_string_value(json_object_get(msg, "id"));
        json_t *req = json_object_get(msg, "req"), *route;

        if (!op || strcmp(op, "route") != 0 || !id)
                return json_pack("{s:O*,s:{s:s,s:s}}", "req", req, "error", "kind", "invalid", "message",
                                 "expected op 'route' with an id");
        route = f->find(id, f->arg);
        if (!route)
                return json_pack("{s:O*,s:{s:s,s:s}}", "req", req, "error", "kind", "not_found", "message",
                                 "no such sandbox");
        return json_pack("{s:O*,s:b,s:o}", "req", req, "ok", 1, "route", route);
}

static void on_message(struct channel *ch, json_t *msg, int *fds, size_t nfds, void *arg)
{
        struct edge *e = arg;

        (void)fds, (void)nfds; /* none are expected; they get closed */
        if (channel_send(ch, answer_to(e->feed, msg), NULL, 0) < 0)
                edge_free(e); /* it would wait for ever: it may ask again on a new channel */
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

void feed_init(struct feed *f, struct loop *loop, json_t *(*find)(const char *id, void *arg), void *arg)
{
        *f = (struct feed){.loop = loop, .find = find, .arg = arg, .listener.io.fd = -1};
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
