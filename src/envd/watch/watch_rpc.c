#include "envd/watch/watch_rpc.h"

#include <errno.h>

#include "base/buf.h"
#include "base/clock.h"
#include "envd/files/filesystem_rpc.h"
#include "envd/rpc/field.h"
#include "envd/rpc/handler_context.h"
#include "envd/rpc/keepalive.h"
#include "envd/rpc/paths.h"
#include "envd/rpc/rpc.h"
#include "envd/watch/watch.h"

#define WATCHER_ID_LEN 20

/* Common to streams and to watchers that are polled */

struct watch_event_format { /* how events are shown */
        bool with_entry;
};

/* Start watching what the message asks for. */
static int watch_requested(struct rpc *rpc, struct watch **ret, struct watch_event_format *format, struct fault *f)
{
        AUTO_USER struct user u = {0};
        AUTO_FREE char *path = NULL;
        bool is_recursive = false, allow_network = false;
        const char *given;

        *format = (struct watch_event_format){0};
        if (field_text(rpc->in, "path", &given, f) < 0 || field_bool(rpc->in, "recursive", &is_recursive, f) < 0 ||
            field_bool(rpc->in, "includeEntry", &format->with_entry, f) < 0 ||
            field_bool(rpc->in, "allowNetworkMounts", &allow_network, f) < 0 ||
            rpc_user_path(rpc, given, &u, &path, f) < 0)
                return -1;
        if (rpc_is_legacy(rpc->rq))
                format->with_entry = false;
        return watch_create(rpc->context->loop, path, is_recursive, allow_network, ret, f);
}

static void watch_event_add_entry(json_t *event, const char *dir, const char *name)
{
        AUTO_FREE char *path = path_join(dir, name);
        AUTO_USERS struct users us;
        struct file_entry_options opt = {.users = &us};
        json_t *entry;

        users_init(&us);
        (void)users_load(&us);
        if (path && file_entry_read(path, NULL, &opt, &entry, NULL) == 0)
                (void)json_object_set_new(event, "entry", entry);
}

static json_t *watch_event_describe(const struct watch *w, const struct watch_event_format *format, enum watch_event ev,
                                    const char *name)
{
        json_t *event = json_pack("{s:o?, s:s}", "name", json_text(str_of(name)), "type", watch_event_name(ev));

        if (event && format->with_entry && (ev == WATCH_CREATE || ev == WATCH_WRITE || ev == WATCH_CHMOD))
                watch_event_add_entry(event, w->path, name);
        return event;
}

/* WatchDir */

struct watch_stream {
        struct rpc *rpc; /* this struct is its state */
        struct watch *watch;
        struct watch_event_format format;
        struct timer keepalive;
        uint64_t interval_ms, last_ms;
};

static void watch_stream_free(struct rpc *rpc)
{
        struct watch_stream *st = rpc->state;

        timer_clear(&st->keepalive);
        watch_free(st->watch);
        free(st);
}

static void watch_stream_event(struct watch *w, enum watch_event ev, const char *name)
{
        struct watch_stream *st = w->arg;

        st->last_ms = clock_mono_ms();
        (void)rpc_send(st->rpc, json_pack("{s:o}", "filesystem", watch_event_describe(w, &st->format, ev, name)));
        if (http_is_full(st->rpc->rq))
                watch_pause(w);
}

static void watch_stream_error(struct watch *w, const char *why)
{
        const struct watch_stream *st = w->arg;

        rpc_failf(st->rpc, CONNECT_INTERNAL, "watcher error: %s", why);
}

static void watch_stream_drained(struct rpc *rpc)
{
        const struct watch_stream *st = rpc->state;

        watch_resume(st->watch);
}

static void watch_stream_keepalive_due(struct timer *t)
{
        struct watch_stream *st = CONTAINER_OF(t, struct watch_stream, keepalive);
        uint64_t silent = clock_mono_ms() - st->last_ms;

        if (silent >= st->interval_ms && !http_is_full(st->rpc->rq)) {
                (void)rpc_send(st->rpc, json_pack("{s:{}}", "keepalive"));
                st->last_ms = clock_mono_ms();
                silent = 0;
        }
        timer_set(st->rpc->context->loop, t, silent < st->interval_ms ? st->interval_ms - silent : st->interval_ms);
}

void watch_rpc_watch_dir(struct rpc *rpc)
{
        AUTO_FAULT struct fault f = {0};
        struct watch_stream *st = calloc(1, sizeof(*st));

        if (!st) {
                rpc_failf(rpc, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
                return;
        }
        *st = (struct watch_stream){.rpc = rpc, .keepalive.on = watch_stream_keepalive_due, .last_ms = clock_mono_ms()};
        rpc->state = st;
        rpc->on_gone = watch_stream_free;
        rpc->on_drain = watch_stream_drained;
        if (watch_requested(rpc, &st->watch, &st->format, &f) < 0) {
                rpc_fail(rpc, &f);
                return;
        }
        st->watch->on_event = watch_stream_event;
        st->watch->on_error = watch_stream_error;
        st->watch->arg = st;
        rpc_open(rpc);
        (void)rpc_send(rpc, json_pack("{s:{}}", "start"));
        st->interval_ms = keepalive_interval_ms(rpc->rq->head);
        timer_set(rpc->context->loop, &st->keepalive, st->interval_ms);
}

/* Watchers that are polled */

struct watcher {
        struct list node;
        struct watchers *all; /* borrowed */
        char id[WATCHER_ID_LEN + 2];
        struct watch *watch;
        struct watch_event_format format;
        struct buf events; /* not fetched yet: JSON, with commas between */
        char *error;       /* owned; NULL: no error */
};

void watchers_init(struct watchers *ws)
{
        *ws = (struct watchers){0};
        list_init(&ws->all);
}

static void watcher_drop_events(struct watcher *wr)
{
        wr->all->bytes -= wr->events.len;
        buf_done(&wr->events);
}

static void watcher_free(struct watcher *wr)
{
        watcher_drop_events(wr);
        list_remove(&wr->node);
        wr->all->count--;
        watch_free(wr->watch);
        free(wr->error);
        free(wr);
}

void watchers_done(struct watchers *ws)
{
        while (!list_is_empty(&ws->all))
                watcher_free(LIST_ENTRY(ws->all.next, struct watcher, node));
}

static void watcher_failed(struct watch *w, const char *why)
{
        struct watcher *wr = w->arg;

        wr->error = str_dup(str_of(why));
        watcher_drop_events(wr); /* the client gets the error instead */
}

static int watcher_keep_event(struct watcher *wr, const char *text)
{
        size_t before = wr->events.len;
        int r;

        if (wr->all->bytes + strlen(text) + 1 > WATCHERS_BYTES_MAX)
                return -E2BIG;
        r = before ? buf_addc(&wr->events, ",") : 0;
        if (r == 0)
                r = buf_addc(&wr->events, text);
        wr->all->bytes += wr->events.len - before;
        return r;
}

static void watcher_event(struct watch *w, enum watch_event ev, const char *name)
{
        struct watcher *wr = w->arg;
        json_t *event = w->has_failed ? NULL : watch_event_describe(w, &wr->format, ev, name);
        AUTO_FREE char *text = event ? json_dumps(event, JSON_COMPACT) : NULL;
        int r = text ? watcher_keep_event(wr, text) : -ENOMEM;

        json_decref(event);
        if (r < 0) /* watch_fail() acts once */
                watch_fail(w, r == -E2BIG ? "too many events that were not fetched" : "out of memory");
}

void watch_rpc_create(struct rpc *rpc)
{
        struct watchers *ws = rpc->service;
        AUTO_FAULT struct fault f = {0};
        struct watcher *wr;

        if (ws->count >= WATCHERS_MAX) {
                rpc_failf(rpc, CONNECT_RESOURCE_EXHAUSTED, "more than %d watchers", WATCHERS_MAX);
                return;
        }
        wr = calloc(1, sizeof(*wr));
        if (!wr) {
                rpc_failf(rpc, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
                return;
        }
        if (watch_requested(rpc, &wr->watch, &wr->format, &f) < 0) {
                free(wr);
                rpc_fail(rpc, &f);
                return;
        }
        wr->watch->on_event = watcher_event;
        wr->watch->on_error = watcher_failed;
        wr->watch->arg = wr;
        wr->all = ws;
        buf_init(&wr->events, WATCHERS_BYTES_MAX);
        wr->id[0] = 'w';
        random_id(wr->id + 1, WATCHER_ID_LEN);
        list_push_back(&ws->all, &wr->node);
        ws->count++;
        rpc_reply(rpc, json_pack("{s:s}", "watcherId", wr->id));
}

static struct watcher *watcher_find(struct rpc *rpc)
{
        const struct watchers *ws = rpc->service;
        AUTO_FAULT struct fault f = {0};
        const char *id;

        if (field_text(rpc->in, "watcherId", &id, &f) < 0) {
                rpc_fail(rpc, &f);
                return NULL;
        }
        LIST_EACH (at, &ws->all) {
                struct watcher *wr = LIST_ENTRY(at, struct watcher, node);

                if (id && strcmp(wr->id, id) == 0)
                        return wr;
        }
        rpc_failf(rpc, CONNECT_NOT_FOUND, "watcher with id %s not found", id ? id : "");
        return NULL;
}

void watch_rpc_events(struct rpc *rpc)
{
        AUTO_BUF struct buf out = BUF_INIT(WATCHERS_BYTES_MAX + 64);
        struct watcher *wr = watcher_find(rpc);

        if (!wr)
                return;
        watch_drain(wr->watch); /* callers count on seeing what they did just before */
        if (wr->error) {
                rpc_failf(rpc, CONNECT_INTERNAL, "watcher error: %s", wr->error);
                return;
        }
        if (wr->events.len == 0) {
                rpc_reply(rpc, json_object());
                return;
        }
        if (buf_addc(&out, "{\"events\":[") < 0 || buf_add(&out, buf_at(&wr->events), wr->events.len) < 0 ||
            buf_addc(&out, "]}") < 0) {
                rpc_failf(rpc, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
                return;
        }
        watcher_drop_events(wr);
        rpc_reply_text(rpc, (struct str){(const char *)buf_at(&out), out.len});
}

void watch_rpc_remove(struct rpc *rpc)
{
        struct watcher *wr = watcher_find(rpc);

        if (!wr)
                return;
        watcher_free(wr);
        rpc_reply(rpc, json_object());
}
