#include "engine/requests.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/log.h"
#include "engine/ask.h"
#include "engine/dial.h"
#include "engine/guest.h"

/* ------------------------------------------------------------- what control may ask */

static struct guest *running(struct engine *e, const json_t *msg, struct err *err)
{
        const json_t *id = json_object_get(msg, "id");
        struct guest *s;

        if (!json_is_string(id) || !sandbox_id_is_valid((struct str){json_string_value(id), json_string_length(id)})) {
                (void)err_set(err, ERR_INVALID, "id: not a sandbox id");
                return NULL;
        }
        s = guest_find(e, json_string_value(id));
        if (!s || s->state != GUEST_RUNNING) {
                (void)err_set(err, ERR_NOT_FOUND, "sandbox %s does not run", json_string_value(id));
                return NULL;
        }
        return s;
}

static int op_create(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        struct plan_create plan;
        int r = plan_decode(json_object_get(msg, "plan"), &plan, err);

        if (r < 0)
                return err_wrap(err, "plan");
        guest_create(e, &plan, a);
        return 0;
}

static int op_kill(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        const json_t *id = json_object_get(msg, "id");
        struct guest *s = json_is_string(id) ? guest_find(e, json_string_value(id)) : NULL;

        if (!s) /* in any other state it can be killed */
                return err_set(err, ERR_NOT_FOUND, "no such sandbox");
        guest_kill(s, a);
        return 0;
}

static int op_list(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        json_t *list = json_array();

        (void)msg;
        (void)err;
        MAP_EACH (slot, &e->sandboxes) {
                const struct guest *s = slot->value;

                if (s->state == GUEST_RUNNING)
                        (void)json_array_append_new(list, json_pack("{s:s,s:i,s:I}", "id", s->record.id, "pid",
                                                                    (int)s->record.pid, "started_ns",
                                                                    (json_int_t)s->record.started_ns));
        }
        ask_ok(a, json_pack("{s:o}", "sandboxes", list), -1);
        return 0;
}

static int op_net(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        struct guest *s = running(e, msg, err);
        struct plan_net net;
        int r;

        if (!s)
                return -ENOENT;
        r = plan_net_decode(json_object_get(msg, "net"), &net, err);
        if (r < 0)
                return r;
        r = guest_set_net(s, &net, err);
        plan_net_done(&net); /* what was not taken */
        if (r == 0)
                r = guest_save(s, err);
        if (r == 0)
                ask_ok(a, NULL, -1);
        return r;
}

static int op_stats(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        struct guest *s = running(e, msg, err);
        struct cgroup_usage u = {0};
        int r;

        if (!s)
                return -ENOENT;
        r = cgroups_usage(&e->cgroups, s->record.slot, &u, err);
        if (r == 0)
                ask_ok(a,
                       json_pack("{s:I,s:I,s:I,s:I}", "memory_bytes", (json_int_t)u.memory_bytes, "memory_limit",
                                 (json_int_t)u.memory_limit, "cpu_us", (json_int_t)u.cpu_us, "pids",
                                 (json_int_t)u.pids),
                       -1);
        return r;
}

static int op_info(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        json_t *info = json_pack("{s:s,s:i,s:I,s:I,s:i,s:i,s:b,s:s}", "isolation", "namespace", "pool_ready",
                                 (int)e->pool.ready_count, "pool_hits", (json_int_t)e->pool.hits, "pool_misses",
                                 (json_int_t)e->pool.misses, "alive", (int)e->alive, "instance",
                                 (int)e->instance.number, "network", e->filter != NULL, "network_why", e->filter_why);

        (void)msg;
        (void)err;
        ask_ok(a, info, -1);
        return 0;
}

static int op_flatten(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        return flattener_op(&e->flattener, msg, a, err);
}

/* ------------------------------------------------------------- what the edge may ask */

static int op_dial(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        json_int_t port = json_integer_value(json_object_get(msg, "port"));
        struct guest *s;

        if (port < 1 || port > 65535)
                return err_set(err, ERR_INVALID, "port: not a port");
        s = running(e, msg, err);
        if (!s)
                return -ENOENT;
        dial(s, (uint16_t)port, a);
        return 0;
}

/* ------------------------------------------------------------- finding the one who answers */

struct op {
        const char *name;
        /* Answers a, now or later, and returns 0; or leaves it alone and sets *err. */
        int (*run)(struct engine *e, const json_t *msg, struct ask *a, struct err *err);
};

static const struct op control_ops[] = {
        {"create", op_create}, {"kill", op_kill}, {"list", op_list},       {"net", op_net},
        {"stats", op_stats},   {"info", op_info}, {"flatten", op_flatten}, {NULL, NULL},
};
static const struct op edge_ops[] = {{"dial", op_dial}, {NULL, NULL}};

struct peer {
        struct client client;
        struct engine *engine;
        const struct op *ops;
};

static void on_message(struct channel *ch, json_t *msg, int *fds, size_t nfds, void *arg)
{
        struct peer *p = arg;
        const json_t *req = json_object_get(msg, "req");
        const char *name = json_string_value(json_object_get(msg, "op"));
        const struct op *op = p->ops;
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

static void accept_peer(struct engine *e, int fd, uint32_t uid, const struct op *ops, struct list *peers)
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

int requests_start(struct engine *e, struct err *err)
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

void requests_stop(struct engine *e)
{
        listener_stop(&e->engine_listener);
        listener_stop(&e->dial_listener);
        drop_all(&e->controls);
        drop_all(&e->edges);
}
