#include "edge/route/dial.h"

#include <errno.h>

#include "base/err.h"
#include "edge/proxy/edge_client.h"
#include "edge/proxy/edge.h"

static int send_dial(struct edge *e, struct client *c)
{
        return link_send(&e->dial_link, json_pack("{s:s, s:I, s:s, s:i}", "op", "dial", "req",
                                                  (json_int_t)c->x.dial_req, "id", c->x.id, "port", (int)c->x.port));
}

bool dial_ask(struct edge *e, struct client *c)
{
        int r;

        if (e->dial_count >= e->limits->dials_max)
                return false;
        c->x.dial_req = ++e->last_req;
        list_push_back(&e->dials, &c->x.wait);
        e->dial_count++;
        r = send_dial(e, c);
        if (r == 0 || r == -ENOTCONN || r == -EPIPE)
                return true; /* if not now it is sent once the link is up again */
        dial_forget(c);
        return false;
}

void dial_forget(struct client *c)
{
        if (!c->x.dial_req)
                return;
        list_remove(&c->x.wait);
        c->edge->dial_count--;
        c->x.dial_req = 0;
}

static enum wait_result result_of(const json_t *msg, size_t nfds)
{
        switch (link_answer_kind(msg)) {
        case ERR_NONE: return nfds == 1 ? WAIT_OVER : WAIT_UNAVAILABLE;
        case ERR_GONE:
        case ERR_CONFLICT: return WAIT_NOT_FOUND; /* there is no such sandbox, or it does not run */
        default: return WAIT_REFUSED;
        }
}

static void on_message(struct link *k, json_t *msg, int *fds, size_t nfds)
{
        struct edge *e = CONTAINER_OF(k, struct edge, dial_link);
        uint64_t req = (uint64_t)json_integer_value(json_object_get(msg, "req"));

        LIST_EACH (node, &e->dials) {
                struct client *c = LIST_ENTRY(node, struct client, x.wait);
                enum wait_result result;

                if (c->x.dial_req != req)
                        continue;
                result = result_of(msg, nfds);
                dial_forget(c);
                client_dialled(c, result, result == WAIT_OVER ? TAKE_FD(fds[0]) : -1,
                               (uint64_t)json_integer_value(json_object_get(msg, "at")));
                return;
        }
        /* Its client left meanwhile; the channel closes the socket. */
}

static void on_up(struct link *k)
{
        struct edge *e = CONTAINER_OF(k, struct edge, dial_link);

        LIST_EACH (node, &e->dials)
                (void)send_dial(e, LIST_ENTRY(node, struct client, x.wait));
}

int dial_start(struct edge *e)
{
        list_init(&e->dials);
        e->dial_link.loop = e->loop;
        e->dial_link.name = "engine";
        e->dial_link.path = conf_path(e->conf, "run/dial.sock");
        e->dial_link.on_up = on_up;
        e->dial_link.on_message = on_message;
        if (!e->dial_link.path)
                return -ENOMEM;
        link_start(&e->dial_link);
        return 0;
}

void dial_done(struct edge *e)
{
        link_done(&e->dial_link);
}
