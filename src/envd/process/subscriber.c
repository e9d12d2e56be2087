#include "envd/process/subscriber.h"

#include <errno.h>

#include "base/clock.h"
#include "envd/process/process.h"
#include "envd/rpc/handler_context.h"
#include "envd/rpc/keepalive.h"

static void subscriber_gone(struct rpc *rpc)
{
        struct subscriber *s = rpc->state;

        timer_clear(&s->keepalive);
        process_unsubscribe(s);
        replay_unref(s->replay);
        free(s);
}

static void subscriber_write(struct subscriber *s, struct str envelope)
{
        s->last_ms = clock_mono_ms();
        (void)http_write(s->rpc->rq, envelope.p, envelope.n); /* a client that left: on_gone follows */
}

static void subscriber_send_end(struct subscriber *s)
{
        struct rpc *rpc = s->rpc;
        json_t *event = s->replay ? process_event_end_at(s->exit_code, s->exit_status, s->replay->offset)
                                  : process_event_end(s->exit_code, s->exit_status);

        if (!event) {
                rpc_failf(rpc, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
                return;
        }
        (void)rpc_send(rpc, event); /* a client that left: on_gone follows */
        rpc_end(rpc);
}

/* Send bytes of the ring until the connection is full or the ring has no more. */
static void subscriber_catch_up(struct subscriber *s)
{
        while (s->is_behind && s->rpc->answer != RPC_ANSWER_DONE && !http_is_full(s->rpc->rq)) {
                enum output_kind kind;
                uint64_t dropped;
                size_t n = replay_next(s->replay, &s->cursor, process_event_read_buffer(), &kind, &dropped);

                if (n == 0)
                        s->is_behind = false;
                else
                        subscriber_write(s, process_event_data_at(kind, process_event_read_buffer(), n,
                                                                  s->cursor.offset - n, dropped));
        }
        if (!s->is_behind && s->is_ended)
                subscriber_send_end(s);
}

static void subscriber_drained(struct rpc *rpc)
{
        struct subscriber *s = rpc->state;

        subscriber_catch_up(s);
        if (s->process)
                process_drained(s->process);
}

static void subscriber_keepalive_due(struct timer *t)
{
        struct subscriber *s = CONTAINER_OF(t, struct subscriber, keepalive);
        uint64_t silent = clock_mono_ms() - s->last_ms;

        if (silent >= s->interval_ms && !subscriber_is_full(s)) {
                subscriber_write(s, process_event_keepalive());
                silent = 0;
        }
        timer_set(s->rpc->context->loop, t, silent < s->interval_ms ? s->interval_ms - silent : s->interval_ms);
}

int replay_from_decode(const struct http1_head *head, struct replay_from *ret, struct fault *f)
{
        struct str value = http1_value(head, REPLAY_HEADER);

        *ret = (struct replay_from){.is_asked = value.n > 0};
        if (value.n && parse_u64(value, 0, UINT64_MAX, &ret->offset) < 0)
                return fault_set(f, CONNECT_INVALID_ARGUMENT, REPLAY_HEADER ": \"%.*s\" is not a number of bytes",
                                 STR_ARG(value));
        return 0;
}

static int subscriber_set_replay(struct subscriber *s, struct replay *r, const struct replay_from *from,
                                 struct fault *f)
{
        if (!from->is_asked)
                return 0;
        if (replay_seek(r, from->offset, &s->cursor) < 0)
                return fault_set(f, CONNECT_OUT_OF_RANGE,
                                 REPLAY_HEADER ": %llu is beyond the output, which has %llu bytes up to now",
                                 (unsigned long long)from->offset, (unsigned long long)r->offset);
        s->replay = replay_ref(r);
        s->is_behind = true;
        return 0;
}

static struct subscriber *subscriber_new(struct rpc *rpc, struct replay *r, const struct replay_from *from,
                                         struct fault *f)
{
        struct subscriber *s = calloc(1, sizeof(*s));

        if (!s) {
                (void)fault_set(f, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
                return NULL;
        }
        *s = (struct subscriber){.rpc = rpc, .keepalive.on = subscriber_keepalive_due};
        if (subscriber_set_replay(s, r, from, f) < 0) {
                free(s);
                return NULL;
        }
        s->interval_ms = keepalive_interval_ms(rpc->rq->head);
        rpc->state = s;
        rpc->on_gone = subscriber_gone;
        rpc->on_drain = subscriber_drained;
        timer_set(rpc->context->loop, &s->keepalive, s->interval_ms);
        return s;
}

/* Send the head and the start event, then what the ring has. */
static void subscriber_begin(struct subscriber *s, pid_t pid)
{
        rpc_open(s->rpc);
        if (s->replay) {
                uint64_t asked = s->cursor.offset, first = s->replay->head_offset;
                uint64_t dropped = asked < first ? first - asked : 0;

                s->cursor.offset += dropped;
                subscriber_write(s, process_event_start_at((uint32_t)pid, s->cursor.offset, dropped, s->replay->offset,
                                                           s->is_ended));
        } else {
                subscriber_write(s, process_event_start((uint32_t)pid));
        }
        subscriber_catch_up(s);
}

int subscriber_create(struct rpc *rpc, struct process *p, const struct replay_from *from, struct fault *f)
{
        struct subscriber *s = subscriber_new(rpc, p->replay, from, f);

        if (!s)
                return -1;
        process_subscribe(p, s);
        subscriber_begin(s, p->pid);
        if (s->is_behind)
                process_hold(p);
        return 0;
}

int subscriber_create_ended(struct rpc *rpc, const struct ended_process *e, const struct replay_from *from,
                            struct fault *f)
{
        struct subscriber *s = subscriber_new(rpc, e->replay, from, f);

        if (!s)
                return -1;
        s->is_ended = true;
        s->exit_code = e->code;
        s->exit_status = e->status;
        subscriber_begin(s, e->pid);
        return 0;
}

bool subscriber_has_offsets(const struct subscriber *s)
{
        return s->replay;
}

void subscriber_send(struct subscriber *s, struct str envelope)
{
        if (s->rpc->answer != RPC_ANSWER_DONE && !s->is_behind)
                subscriber_write(s, envelope);
}

bool subscriber_is_full(const struct subscriber *s)
{
        return s->rpc->answer != RPC_ANSWER_DONE && (s->is_behind || http_is_full(s->rpc->rq));
}

void subscriber_end(struct subscriber *s, int code, int status)
{
        s->is_ended = true;
        s->exit_code = code;
        s->exit_status = status;
        subscriber_catch_up(s);
}
