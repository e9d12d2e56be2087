#include "edge/route/process_link.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "io/listener.h"

#define RETRY_FIRST_MS 10u
#define RETRY_MOST_MS 500u

static void process_link_try_later(struct process_link *k)
{
        timer_set(k->loop, &k->retry, k->retry_ms);
        k->retry_ms = k->retry_ms * 2 < RETRY_MOST_MS ? k->retry_ms * 2 : RETRY_MOST_MS;
}

static void process_link_on_message(struct channel *ch, json_t *msg, int *fds, size_t nfds, void *arg)
{
        struct process_link *k = arg;

        (void)ch;
        if (!k->is_live) {
                k->is_live = true;
                k->retry_ms = RETRY_FIRST_MS;
                log_debug("link.live", "to=%s", k->name);
        }
        k->on_message(k, msg, fds, nfds);
}

static void process_link_on_close(struct channel *ch, const char *reason, void *arg)
{
        struct process_link *k = arg;

        if (k->is_live)
                log_warn("link.lost", "to=%s reason=\"%s\", connecting again", k->name, reason);
        k->channel = channel_free(ch);
        k->is_live = false;
        process_link_try_later(k);
}

static void process_link_connect_now(struct process_link *k)
{
        static const struct channel_ops ops = {.on_message = process_link_on_message,
                                               .on_close = process_link_on_close};
        int fd, r;

        r = connect_unix(k->path, &fd);
        if (r == 0)
                r = channel_create(k->loop, fd, &ops, k, &k->channel);
        if (r < 0) {
                k->channel = NULL;
                log_debug("link.refused", "to=%s errno=%d", k->name, -r);
                process_link_try_later(k);
                return;
        }
        k->on_up(k);
}

static void process_link_on_retry(struct timer *t)
{
        process_link_connect_now(CONTAINER_OF(t, struct process_link, retry));
}

void process_link_start(struct process_link *k)
{
        k->retry = (struct timer){.on = process_link_on_retry};
        k->retry_ms = RETRY_FIRST_MS;
        process_link_connect_now(k);
}

void process_link_done(struct process_link *k)
{
        timer_clear(&k->retry);
        k->channel = channel_free(k->channel);
        free(k->path);
        k->path = NULL;
        k->is_live = false;
}

bool process_link_is_live(const struct process_link *k)
{
        return k->is_live;
}

int process_link_send(struct process_link *k, json_t *msg)
{
        if (!msg)
                return -ENOMEM;
        if (!k->channel) {
                json_decref(msg);
                return -ENOTCONN;
        }
        return channel_send(k->channel, msg, NULL, 0);
}

enum err_kind process_link_answer_kind(const json_t *msg)
{
        const char *kind;

        if (json_is_true(json_object_get(msg, "ok")))
                return ERR_NONE;
        kind = json_string_value(json_object_get(json_object_get(msg, "error"), "kind"));
        return kind ? err_kind_from_name(kind) : ERR_INTERNAL;
}
