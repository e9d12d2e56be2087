#include "envd/subscriber.h"

#include <errno.h>

#include "base/clock.h"
#include "envd/envd.h"
#include "envd/keepalive.h"
#include "envd/process.h"

static void on_gone(struct rpc *rpc)
{
        struct subscriber *s = rpc->state;

        timer_clear(&s->keepalive);
        process_unsubscribe(s);
        free(s);
}

static void on_drain(struct rpc *rpc)
{
        struct subscriber *s = rpc->state;

        if (s->process)
                process_drained(s->process);
}

static void write_envelope(struct subscriber *s, struct str envelope)
{
        s->last_ms = clock_mono_ms();
        (void)http_write(s->rpc->rq, envelope.p, envelope.n); /* a client that left: on_gone follows */
}

static void on_keepalive(struct timer *t)
{
        struct subscriber *s = CONTAINER_OF(t, struct subscriber, keepalive);
        uint64_t silent = clock_mono_ms() - s->last_ms;

        if (silent >= s->interval_ms && !subscriber_is_full(s)) {
                write_envelope(s, output_keepalive());
                silent = 0;
        }
        timer_set(s->rpc->envd->loop, t, silent < s->interval_ms ? s->interval_ms - silent : s->interval_ms);
}

int subscriber_create(struct rpc *rpc, struct process *p)
{
        struct subscriber *s = calloc(1, sizeof(*s));

        if (!s)
                return -ENOMEM;
        *s = (struct subscriber){.rpc = rpc, .keepalive.on = on_keepalive};
        s->interval_ms = keepalive_interval_ms(rpc->rq->head);
        rpc->state = s;
        rpc->on_gone = on_gone;
        rpc->on_drain = on_drain;
        process_subscribe(p, s);
        timer_set(rpc->envd->loop, &s->keepalive, s->interval_ms);
        rpc_open(rpc);
        write_envelope(s, output_start((uint32_t)p->pid));
        return 0;
}

void subscriber_send(struct subscriber *s, struct str envelope)
{
        if (!s->rpc->is_over)
                write_envelope(s, envelope);
}

bool subscriber_is_full(const struct subscriber *s)
{
        return !s->rpc->is_over && http_is_full(s->rpc->rq);
}

void subscriber_end(struct subscriber *s, json_t *event)
{
        struct rpc *rpc = s->rpc;

        if (rpc_send(rpc, json_incref(event)) < 0 && !event) {
                rpc_failf(rpc, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
                return;
        }
        rpc_end(rpc);
}
