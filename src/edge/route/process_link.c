#include "edge/route/process_link.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "io/listener.h"

#define RETRY_FIRST_MS 10u
#define RETRY_MOST_MS 500u

static void try_later(struct link *k)
{
        timer_set(k->loop, &k->retry, k->retry_ms);
        k->retry_ms = k->retry_ms * 2 < RETRY_MOST_MS ? k->retry_ms * 2 : RETRY_MOST_MS;
}

static void on_message(struct channel *ch, json_t *msg, int *fds, size_t nfds, void *arg)
{
        struct link *k = arg;

        (void)ch;
        if (!k->is_live) {
                k->is_live = true;
                k->retry_ms = RETRY_FIRST_MS;
                log_debug("link.live", "to=%s", k->name);
        }
        k->on_message(k, msg, fds, nfds);
}

static void on_close(struct channel *ch, const char *reason, void *arg)
{
        struct link *k = arg;

        if (k->is_live)
                log_warn("link.lost", "to=%s reason=\"%s\", connecting again", k->name, reason);
        k->channel = channel_free(ch);
        k->is_live = false;
        try_later(k);
}

static void connect_now(struct link *k)
{
        static const struct channel_ops ops = {.on_message = on_message, .on_close = on_close};
        int fd, r;

        r = connect_unix(k->path, &fd);
        if (r == 0)
                r = channel_create(k->loop, fd, &ops, k, &k->channel);
        if (r < 0) {
                k->channel = NULL;
                log_debug("link.refused", "to=%s errno=%d", k->name, -r);
                try_later(k);
                return;
        }
        k->on_up(k);
}

static void on_retry(struct timer *t)
{
        connect_now(CONTAINER_OF(t, struct link, retry));
}

void link_start(struct link *k)
{
        k->retry = (struct timer){.on = on_retry};
        k->retry_ms = RETRY_FIRST_MS;
        connect_now(k);
}

void link_done(struct link *k)
{
        timer_clear(&k->retry);
        k->channel = channel_free(k->channel);
        free(k->path);
        k->path = NULL;
        k->is_live = false;
}

bool link_is_live(const struct link *k)
{
        return k->is_live;
}

int link_send(struct link *k, json_t *msg)
{
        if (!msg)
                return -ENOMEM;
        if (!k->channel) {
                json_decref(msg);
                return -ENOTCONN;
        }
        return channel_send(k->channel, msg, NULL, 0);
}

enum err_kind link_answer_kind(const json_t *msg)
{
        const char *kind;

        if (json_is_true(json_object_get(msg, "ok")))
                return ERR_NONE;
        kind = json_string_value(json_object_get(json_object_get(msg, "error"), "kind"));
        return kind ? err_kind_from_name(kind) : ERR_INTERNAL;
}
