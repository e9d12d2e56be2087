#include "control/engine_link/engine_link.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "io/listener.h"
#include "model/err_json.h"

#define RETRY_MS_MIN 20
#define RETRY_MS_MAX 2000
#define LIST_TIMEOUT_MS 30000

static struct str req_key(const uint64_t *req)
{
        return (struct str){(const char *)req, sizeof(*req)};
}

/* ---- calls ---- */

void engine_call_cancel(struct engine_call *c)
{
        struct engine_link *l = c->link;

        if (!l)
                return;
        list_remove(&c->node);
        timer_clear(&c->timer);
        (void)map_remove(&l->by_req, req_key(&c->req));
        json_decref(c->msg);
        c->msg = NULL;
        c->link = NULL;
        l->call_count--;
}

static void engine_call_finish(struct engine_call *c, const json_t *answer, const struct err *err)
{
        engine_call_cancel(c);
        c->on(c, answer, err);
}

static void engine_call_fail(struct engine_call *c, enum err_kind kind, const char *why)
{
        struct err err;

        err_set(&err, kind, "%s", why);
        engine_call_finish(c, NULL, &err);
}

static void engine_call_timeout(struct timer *t)
{
        struct engine_call *c = CONTAINER_OF(t, struct engine_call, timer);

        c->is_unanswered = true;
        engine_call_fail(c, ERR_TIMEOUT, "the engine did not answer in time");
}

static void engine_calls_fail(struct list *calls, const char *why)
{
        struct list *node;

        while ((node = calls->next) !=
               calls) /* callbacks may start and cancel calls: the list is looked at anew each time */
                engine_call_fail(LIST_ENTRY(node, struct engine_call, node), ERR_UNAVAILABLE, why);
}

static void engine_link_fail_task(struct task *t)
{
        engine_calls_fail(&CONTAINER_OF(t, struct engine_link, fail_task)->failed,
                          "the engine cannot take the request now");
}

static void engine_call_fail_later(struct engine_link *l, struct engine_call *c)
{
        list_remove(&c->node);
        list_push_back(&l->failed, &c->node);
        loop_post(l->loop, &l->fail_task);
}

static void engine_call_send(struct engine_link *l, struct engine_call *c)
{
        json_t *msg = TAKE_PTR(c->msg);
        int r;

        list_remove(&c->node);
        list_push_back(&l->sent, &c->node);
        r = channel_send(l->channel, msg, NULL, 0);
        if (r < 0 &&
            r != -EPIPE) /* a closed channel calls engine_link_closed(), which fails all calls that were sent */
                engine_call_fail_later(l, c);
}

void engine_call(struct engine_link *l, struct engine_call *c, json_t *msg, unsigned timeout_ms)
{
        assert(!c->link && c->on);
        c->link = l;
        c->is_unanswered = false;
        c->fd = NULL;
        c->req = ++l->last_req;
        c->msg = msg;
        c->timer.on = engine_call_timeout;
        timer_set(l->loop, &c->timer, timeout_ms);
        list_push_back(&l->waiting, &c->node);
        l->call_count++;
        if (!msg || json_object_set_new(msg, "req", json_integer((json_int_t)c->req)) < 0 ||
            l->call_count > ENGINE_CALLS_MAX || map_put(&l->by_req, req_key(&c->req), c, NULL) < 0)
                engine_call_fail_later(l, c);
        else if (l->state == ENGINE_UP || (c == &l->list && l->channel))
                engine_call_send(l, c);
}

/* ---- the channel ---- */

static void engine_link_take_answer(struct engine_link *l, const json_t *msg, int *fd)
{
        uint64_t req = (uint64_t)json_integer_value(json_object_get(msg, "req"));
        struct engine_call *c = map_get(&l->by_req, req_key(&req));
        struct err err;

        if (!c)
                return; /* cancelled, or timed out */
        if (json_is_true(json_object_get(msg, "ok"))) {
                c->fd = fd;
                engine_call_finish(c, msg, NULL);
                return;
        }
        (void)err_decode(json_object_get(msg, "error"), "the engine gave no reason", &err);
        engine_call_finish(c, NULL, &err);
}

static void engine_link_message(struct channel *ch, json_t *msg, int *fds, size_t nfds, void *arg)
{
        struct engine_link *l = arg;
        const char *event = json_string_value(json_object_get(msg, "event"));
        const char *id = json_string_value(json_object_get(msg, "id"));

        (void)ch; /* fds that nobody takes get closed */
        if (event && id && strcmp(event, "exited") == 0)
                l->ops->on_exited(id, l->arg);
        else if (event && id && strcmp(event, "rechecked") == 0)
                l->ops->on_rechecked(msg, l->arg);
        else if (!event)
                engine_link_take_answer(l, msg, nfds ? fds : NULL);
}

static void engine_link_retry_later(struct engine_link *l)
{
        timer_set(l->loop, &l->retry, l->retry_ms);
        l->retry_ms = l->retry_ms * 2 < RETRY_MS_MAX ? l->retry_ms * 2 : RETRY_MS_MAX;
}

static void engine_link_down(struct engine_link *l, const char *reason)
{
        if (l->state == ENGINE_UP)
                log_warn("engine.lost", "reason=\"%s\", connecting again", reason);
        l->state = ENGINE_DOWN;
        l->channel = channel_free(l->channel);
        engine_call_cancel(&l->list);
        engine_link_retry_later(l);
        engine_calls_fail(&l->sent, "the engine went away before it answered");
}

void engine_link_reset(struct engine_link *l)
{
        if (l->channel)
                engine_link_down(l, "a call was not answered");
}

static void engine_link_closed(struct channel *ch, const char *reason, void *arg)
{
        (void)ch;
        engine_link_down(arg, reason);
}

static void engine_link_listed(struct engine_call *c, const json_t *answer, const struct err *err)
{
        struct engine_link *l = CONTAINER_OF(c, struct engine_link, list);

        if (err) {
                log_warn("engine.list", "failed=\"%s\", connecting again", err->msg);
                engine_link_down(l, "no list");
                return;
        }
        l->retry_ms = RETRY_MS_MIN;
        l->ops->on_list(answer, l->arg);
        l->state = ENGINE_UP;
        log_info("engine.up", "waiting_calls=%zu", l->call_count);
        while (l->state == ENGINE_UP && !list_is_empty(&l->waiting))
                engine_call_send(l, LIST_ENTRY(l->waiting.next, struct engine_call, node));
}

static void engine_link_connect(struct timer *t)
{
        static const struct channel_ops ops = {.on_message = engine_link_message, .on_close = engine_link_closed};
        struct engine_link *l = CONTAINER_OF(t, struct engine_link, retry);
        int fd = -1, r;

        r = connect_unix(l->path, &fd);
        if (r == 0)
                r = channel_create(l->loop, fd, &ops, l, &l->channel);
        if (r < 0) {
                log_debug("engine.connect", "failed=%s", strerror(-r));
                engine_link_retry_later(l);
                return;
        }
        l->state = ENGINE_SYNCING;
        engine_call(l, &l->list, json_pack("{s:s}", "op", "list"), LIST_TIMEOUT_MS);
}

int engine_link_start(struct engine_link *l, struct loop *loop, const char *path, const struct engine_link_ops *ops,
                      void *arg)
{
        *l = (struct engine_link){.loop = loop, .ops = ops, .arg = arg, .retry_ms = RETRY_MS_MIN};
        list_init(&l->waiting);
        list_init(&l->sent);
        list_init(&l->failed);
        l->retry.on = engine_link_connect;
        l->list.on = engine_link_listed;
        l->fail_task.run = engine_link_fail_task;
        l->path = strdup(path);
        if (!l->path)
                return -ENOMEM;
        timer_set(loop, &l->retry, 0);
        return 0;
}

static void engine_calls_drop(struct list *calls)
{
        while (calls->next && calls->next != calls)
                engine_call_cancel(LIST_ENTRY(calls->next, struct engine_call, node));
}

void engine_link_stop(struct engine_link *l)
{
        engine_calls_drop(&l->waiting);
        engine_calls_drop(&l->sent);
        engine_calls_drop(&l->failed);
        timer_clear(&l->retry);
        loop_unpost(&l->fail_task);
        l->channel = channel_free(l->channel);
        map_done(&l->by_req);
        free(l->path);
        l->path = NULL;
}
