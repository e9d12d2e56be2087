#include "edge/route/dial.h"

#include <errno.h>

#include "base/err.h"
#include "edge/proxy/edge_client.h"
#include "edge/proxy/edge.h"

static int dial_send(struct edge *e, struct edge_client *c)
{
        return process_link_send(&e->dial_link,
                                 json_pack("{s:s, s:I, s:s, s:i}", "op", "dial", "req", (json_int_t)c->x.dial_req, "id",
                                           c->x.id, "port", (int)c->x.port));
}

bool dial_ask(struct edge *e, struct edge_client *c)
{
        int r;

        if (e->dial_count >= e->limits->dials_max)
                return false;
        c->x.dial_req = ++e->last_req;
        list_push_back(&e->dials, &c->x.wait);
        e->dial_count++;
        r = dial_send(e, c);
        if (r == 0 || r == -ENOTCONN || r == -EPIPE)
                return true; /* if not now it is sent once the link is up again */
        dial_forget(c);
        return false;
}

void dial_forget(struct edge_client *c)
{
        if (!c->x.dial_req)
                return;
        list_remove(&c->x.wait);
        c->edge->dial_count--;
        c->x.dial_req = 0;
}

static enum visit_result dial_result_of(const json_t *msg, size_t nfds)
{
        switch (process_link_answer_kind(msg)) {
        case ERR_NONE: return nfds == 1 ? WAIT_OVER : WAIT_UNAVAILABLE;
        case ERR_GONE:
        case ERR_CONFLICT: return WAIT_NOT_FOUND; /* there is no such sandbox, or it does not run */
        default: return WAIT_REFUSED;
        }
}

static void dial_on_message(struct process_link *k, json_t *msg, int *fds, size_t nfds)
{
        struct edge *e = CONTAINER_OF(k, struct edge, dial_link);
        uint64_t req = (uint64_t)json_integer_value(json_object_get(msg, "req"));

        LIST_EACH (node, &e->dials) {
                struct edge_client *c = LIST_ENTRY(node, struct edge_client, x.wait);
                enum visit_result result;

                if (c->x.dial_req != req)
                        continue;
                result = dial_result_of(msg, nfds);
                dial_forget(c);
                edge_client_dialled(c, result, result == WAIT_OVER ? TAKE_FD(fds[0]) : -1,
                                    (uint64_t)json_integer_value(json_object_get(msg, "at")));
                return;
        }
        /* Its client left meanwhile; the channel closes the socket. */
}

static void dial_on_up(struct process_link *k)
{
        struct edge *e = CONTAINER_OF(k, struct edge, dial_link);

        LIST_EACH (node, &e->dials)
                (void)dial_send(e, LIST_ENTRY(node, struct edge_client, x.wait));
}

int dial_start(struct edge *e)
{
        list_init(&e->dials);
        e->dial_link.loop = e->loop;
        e->dial_link.name = "engine";
        e->dial_link.path = conf_path(e->conf, "run/dial.sock");
        e->dial_link.on_up = dial_on_up;
        e->dial_link.on_message = dial_on_message;
        if (!e->dial_link.path)
                return -ENOMEM;
        process_link_start(&e->dial_link);
        return 0;
}

void dial_done(struct edge *e)
{
        process_link_done(&e->dial_link);
}
