#include "edge/route/dial.h"

#include <errno.h>

#include "base/err.h"
#include "edge/route/visit.h"
#include "model/conf.h"

static int dial_send(struct dialler *d, struct visit *v)
{
        return process_link_send(&d->link, json_pack("{s:s, s:I, s:s, s:i}", "op", "dial", "req", (json_int_t)v->req,
                                                     "id", v->id, "port", (int)v->port));
}

bool dial_ask(struct visit *v)
{
        struct dialler *d = v->dialler;
        int r;

        if (d->count >= d->count_max)
                return false;
        visit_go(v, VISIT_SOCKET);
        v->req = ++d->last_req;
        list_push_back(&d->waiting, &v->wait);
        d->count++;
        r = dial_send(d, v);
        if (r == 0 || r == -ENOTCONN || r == -EPIPE)
                return true; /* without a link the question is sent once the link is up again */
        dial_forget(v);
        return false;
}

void dial_forget(struct visit *v)
{
        list_remove(&v->wait);
        v->dialler->count--;
        visit_go(v, VISIT_FREE);
}

static enum wait_result dial_result_of(const json_t *msg, size_t nfds)
{
        switch (process_link_answer_kind(msg)) {
        case ERR_NONE: return nfds == 1 ? WAIT_OVER : WAIT_UNAVAILABLE;
        case ERR_GONE:
        case ERR_CONFLICT: return WAIT_NOT_FOUND; /* there is no such sandbox, or the sandbox does not run */
        default: return WAIT_REFUSED;
        }
}

static void dial_on_message(struct process_link *k, json_t *msg, int *fds, size_t nfds)
{
        struct dialler *d = CONTAINER_OF(k, struct dialler, link);
        uint64_t req = (uint64_t)json_integer_value(json_object_get(msg, "req"));

        LIST_EACH (node, &d->waiting) {
                struct visit *v = LIST_ENTRY(node, struct visit, wait);
                enum wait_result result;

                if (v->req != req)
                        continue;
                result = dial_result_of(msg, nfds);
                dial_forget(v);
                v->ops->dialled(v, result, result == WAIT_OVER ? TAKE_FD(fds[0]) : -1,
                                (uint64_t)json_integer_value(json_object_get(msg, "at")));
                return;
        }
        /* The client left meanwhile; the channel closes the socket. */
}

static void dial_on_up(struct process_link *k)
{
        struct dialler *d = CONTAINER_OF(k, struct dialler, link);

        LIST_EACH (node, &d->waiting)
                (void)dial_send(d, LIST_ENTRY(node, struct visit, wait));
}

int dial_start(struct dialler *d, struct loop *loop, const struct conf *conf, size_t waiting_max)
{
        d->count_max = waiting_max;
        list_init(&d->waiting);
        d->link.loop = loop;
        d->link.name = "engine";
        d->link.path = conf_path(conf, "run/dial.sock");
        d->link.on_up = dial_on_up;
        d->link.on_message = dial_on_message;
        if (!d->link.path)
                return -ENOMEM;
        process_link_start(&d->link);
        return 0;
}

void dial_done(struct dialler *d)
{
        process_link_done(&d->link);
}
