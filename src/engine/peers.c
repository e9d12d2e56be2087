#include "engine/peers.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "engine/guest/ask.h"
#include "engine/requests.h"

struct peer {
        struct client client;
        struct engine *engine;
        const struct request_op *ops;
};

static void on_message(struct channel *ch, json_t *msg, int *fds, size_t nfds, void *arg)
{
        struct peer *p = arg;
        const json_t *req = json_object_get(msg, "req");
        const char *name = json_string_value(json_object_get(msg, "op"));
        const struct request_op *op = p->ops;
        struct err err = {0};
        struct ask *a;

        (void)ch;
        (void)fds; /* none is expected; the channel closes them */
        (void)nfds;
        if (!json_is_integer(req))
                return; /* nothing to answer to */
        a = ask_create(&p->client, json_integer_value(req));
        if (!a)
                return;
        while (op->name && (!name || strcmp(op->name, name) != 0))
                op++;
        if (!op->name)
                (void)err_set(&err, ERR_INVALID, "op: unknown");
        if (!op->name || op->run(p->engine, msg, a, &err) < 0)
                ask_fail(a, &err);
}

static void free_peer(struct task *t)
{
        free(CONTAINER_OF(t, struct peer, client.free_task));
}

static void drop_peer(struct peer *p)
{
        client_orphan_asks(&p->client);
        list_remove(&p->client.node);
        p->client.channel = channel_free(p->client.channel);
        p->client.free_task.run = free_peer;
        loop_post(p->engine->loop, &p->client.free_task);
}

static void on_close(struct channel *ch, const char *reason, void *arg)
{
        struct peer *p = arg;

        (void)ch;
        log_debug("peer.gone", "reason=\"%s\"", reason);
        drop_peer(p);
}

static const struct channel_ops peer_ops = {.on_message = on_message, .on_close = on_close};

static bool may_connect(int fd, uint32_t uid)
{
        struct ucred who = {.uid = (uid_t)-1};
        socklen_t len = sizeof(who);

        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0)
                return false;
        if (who.uid == 0 || who.uid == uid)
                return true;
        log_warn("peer.refused", "uid=%u, closing", who.uid);
        return false;
}

static void accept_peer(struct engine *e, int fd, uint32_t uid, const struct request_op *ops, struct list *peers)
{
        struct peer *p = may_connect(fd, uid) ? calloc(1, sizeof(*p)) : NULL;

        if (!p) {
                (void)close(fd);
                return;
        }
        p->engine = e;
        p->ops = ops;
        list_init(&p->client.asks);
        if (channel_create(e->loop, fd, &peer_ops, p, &p->client.channel) < 0) {
                free(p);
                return;
        }
        list_push_back(peers, &p->client.node);
}

static void on_control(struct listener *ln, int fd)
{
        struct engine *e = ln->arg;

        accept_peer(e, fd, e->conf->control_uid, control_ops, &e->controls);
}

static void on_edge(struct listener *ln, int fd)
{
        struct engine *e = ln->arg;

        accept_peer(e, fd, e->conf->edge_uid, edge_ops, &e->edges);
}

int peers_start(struct engine *e, struct err *err)
{
        int r = listener_start(&e->engine_listener, e->loop, e->conf->fds.engine, on_control, e);

        if (r == 0)
                r = listener_start(&e->dial_listener, e->loop, e->conf->fds.dial, on_edge, e);
        return r < 0 ? err_sys(err, r, "listen") : 0;
}

static void drop_all(struct list *peers)
{
        while (!list_is_empty(peers))
                drop_peer(LIST_ENTRY(peers->next, struct peer, client.node));
}

void peers_stop(struct engine *e)
{
        listener_stop(&e->engine_listener);
        listener_stop(&e->dial_listener);
        drop_all(&e->controls);
        drop_all(&e->edges);
}
