#include "engine/guest/ask.h"

#include <stdlib.h>

#include "base/err.h"
#include "model/err_json.h"

struct ask *ask_create(struct client *c, json_int_t req)
{
        struct ask *a = calloc(1, sizeof(*a));

        if (!a)
                return NULL;
        a->client = c;
        a->req = req;
        list_push_back(&c->asks, &a->node);
        return a;
}

static void ask_answer(struct ask *a, json_t *msg, int fd)
{
        if (a->client && a->client->channel && msg)
                (void)channel_send(a->client->channel, msg, &fd, fd >= 0); /* a dead peer shows as on_close */
        else
                json_decref(msg);
        list_remove(&a->node);
        free(a);
}

void ask_ok(struct ask *a, json_t *body, int fd)
{
        json_t *msg;

        if (!a) {
                json_decref(body);
                return;
        }
        msg = body ? body : json_object();
        (void)json_object_set_new(msg, "req", json_integer(a->req));
        (void)json_object_set_new(msg, "ok", json_true());
        ask_answer(a, msg, fd);
}

void ask_fail(struct ask *a, const struct err *err)
{
        if (!a)
                return;
        ask_answer(a, json_pack("{s:I,s:o}", "req", a->req, "error", err_encode(err)), -1);
}

void client_orphan_asks(struct client *c)
{
        struct list *node;

        while ((node = list_pop_front(&c->asks))) {
                struct ask *a = LIST_ENTRY(node, struct ask, node);

                a->client = NULL;
                if (a->on_orphan)
                        a->on_orphan(a);
        }
}
