#include "control/build/role_link.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "io/listener.h"
#include "model/err_json.h"

#define IDLE_MS 10000

static void role_link_rest(struct role_link *l)
{
        if (list_is_empty(&l->calls) && l->channel)
                timer_set(l->loop, &l->idle, IDLE_MS);
}

void role_call_cancel(struct role_call *c)
{
        struct role_link *l = c->link;

        if (!l)
                return;
        list_remove(&c->node);
        c->link = NULL;
        role_link_rest(l);
}

static void abort_answered(struct role_call *c, const json_t *answer, int *fd, const struct err *err)
{
        (void)answer, (void)fd, (void)err;
        free(c);
}

void role_call_abort(struct role_call *c)
{
        struct role_link *l = c->link;
        json_int_t of = (json_int_t)c->req;
        struct role_call *told = l && l->channel ? calloc(1, sizeof(*told)) : NULL;

        role_call_cancel(c);
        if (!told)
                return; /* without a channel it has ended anyway */
        told->on = abort_answered;
        role_call(l, told, json_pack("{s:s,s:I}", "op", "cancel", "of", of), NULL, 0);
}

static void role_call_finish(struct role_call *c, const json_t *answer, int *fd, const struct err *err)
{
        role_call_cancel(c);
        c->on(c, answer, fd, err);
}

static void role_link_fail_task(struct task *t)
{
        struct role_link *l = CONTAINER_OF(t, struct role_link, fail_task);
        struct err err;

        (void)err_set(&err, ERR_UNAVAILABLE, "the %s ended before it answered", l->name);
        while (l->failed.next != &l->failed) /* callbacks may start and cancel calls */
                role_call_finish(LIST_ENTRY(l->failed.next, struct role_call, node), NULL, NULL, &err);
}

static void role_call_fail_later(struct role_call *c)
{
        struct role_link *l = c->link;

        list_remove(&c->node);
        list_push_back(&l->failed, &c->node);
        loop_post(l->loop, &l->fail_task);
}

static void role_link_closed(struct channel *ch, const char *reason, void *arg)
{
        struct role_link *l = arg;

        (void)ch;
        if (!list_is_empty(&l->calls))
                log_warn("role.lost", "role=%s reason=\"%s\"", l->name, reason);
        l->channel = channel_free(l->channel);
        timer_clear(&l->idle);
        while (!list_is_empty(&l->calls))
                role_call_fail_later(LIST_ENTRY(l->calls.next, struct role_call, node));
}

static struct role_call *role_link_find(const struct role_link *l, const json_t *req)
{
        LIST_EACH (node, &l->calls) {
                struct role_call *c = LIST_ENTRY(node, struct role_call, node);

                if (json_is_integer(req) && c->req == (uint64_t)json_integer_value(req))
                        return c;
        }
        return NULL; /* cancelled */
}

static void role_link_message(struct channel *ch, json_t *msg, int *fds, size_t nfds, void *arg)
{
        struct role_call *c = role_link_find(arg, json_object_get(msg, "req"));
        struct err err;

        (void)ch;
        if (!c)
                return;
        if (json_object_get(msg, "event")) {
                if (c->on_event)
                        c->on_event(c, msg);
        } else if (json_is_true(json_object_get(msg, "ok"))) {
                role_call_finish(c, msg, nfds ? fds : NULL, NULL);
        } else {
                (void)err_decode(json_object_get(msg, "error"), "it gave no reason", &err);
                role_call_finish(c, NULL, NULL, &err);
        }
}

static int role_link_connect(struct role_link *l)
{
        static const struct channel_ops ops = {.on_message = role_link_message, .on_close = role_link_closed};
        int fd = -1, r;

        if (l->channel)
                return 0;
        r = connect_unix(l->path, &fd);
        if (r == 0)
                r = channel_create(l->loop, fd, &ops, l, &l->channel);
        if (r < 0)
                log_warn("role.connect", "role=%s failed=\"%s\"", l->name, strerror(-r));
        return r;
}

void role_call(struct role_link *l, struct role_call *c, json_t *msg, const int *fds, size_t nfds)
{
        int r = msg ? role_link_connect(l) : -ENOMEM;

        assert(!c->link && c->on);
        timer_clear(&l->idle);
        c->link = l;
        c->req = ++l->last_req;
        list_push_back(&l->calls, &c->node);
        if (r == 0 && json_object_set_new(msg, "req", json_integer((json_int_t)c->req)) < 0)
                r = -ENOMEM;
        if (r < 0)
                json_decref(msg);
        else
                r = channel_send(l->channel, msg, fds, nfds);
        if (r < 0 && r != -EPIPE) /* a closed channel calls role_link_closed(), which fails all calls */
                role_call_fail_later(c);
}

static void role_link_idle(struct timer *t)
{
        struct role_link *l = CONTAINER_OF(t, struct role_link, idle);

        l->channel = channel_free(l->channel);
}

int role_link_init(struct role_link *l, struct loop *loop, const char *name, const char *path)
{
        *l = (struct role_link){.loop = loop, .name = name, .path = path ? strdup(path) : NULL};
        list_init(&l->calls);
        list_init(&l->failed);
        l->idle.on = role_link_idle;
        l->fail_task.run = role_link_fail_task;
        return l->path ? 0 : -ENOMEM;
}

static void role_calls_drop(struct list *calls)
{
        struct list *node;

        while (calls->next && (node = list_pop_front(calls)))
                LIST_ENTRY(node, struct role_call, node)->link = NULL;
}

void role_link_done(struct role_link *l)
{
        role_calls_drop(&l->calls);
        role_calls_drop(&l->failed);
        if (l->loop) {
                timer_clear(&l->idle);
                loop_unpost(&l->fail_task);
        }
        l->channel = channel_free(l->channel);
        free(l->path);
        l->path = NULL;
}
