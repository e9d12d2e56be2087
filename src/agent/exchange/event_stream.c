#include "agent/exchange/event_stream.h"

#include <inttypes.h>
#include <string.h>

#include "agent/exchange/exchange.h"
#include "base/buf.h"

#define ALIVE_MS 15000u
#define EVENT_MAX (4u << 20)

static void event_stream_write(struct event_stream *s, struct str bytes)
{
        (void)http_write(s->x->rq, bytes.p, bytes.n); /* a client that left is told by the end of the exchange */
        timer_set(s->x->agent->loop, &s->alive, ALIVE_MS);
}

static void event_stream_is_silent(struct timer *t)
{
        struct event_stream *s = CONTAINER_OF(t, struct event_stream, alive);

        if (http_is_full(s->x->rq))
                timer_set(s->x->agent->loop, t, ALIVE_MS);
        else
                event_stream_write(s, STR(": alive\n\n"));
}

void event_stream_begin(struct event_stream *s, struct exchange *x)
{
        s->x = x;
        s->alive.on = event_stream_is_silent;
        tell_begin(x, 200, "text/event-stream", -1);
        timer_set(x->agent->loop, &s->alive, ALIVE_MS);
}

void event_stream_send(struct event_stream *s, const char *event, const uint64_t *id, json_t *data)
{
        AUTO_FREE char *text = data ? json_dumps(data, JSON_COMPACT) : NULL; /* without line ends: they are escaped */
        AUTO_BUF struct buf out = BUF_INIT(EVENT_MAX);
        int r = text ? buf_addf(&out, "event: %s\n", event) : -1;

        json_decref(data);
        if (!s->x)
                return;
        if (r == 0 && id)
                r = buf_addf(&out, "id: %" PRIu64 "\n", *id);
        if (r == 0)
                r = buf_addc(&out, "data: ");
        if (r == 0)
                r = buf_addc(&out, text);
        if (r == 0)
                r = buf_addc(&out, "\n\n");
        if (r == 0)
                event_stream_write(s, (struct str){(const char *)buf_at(&out), out.len});
        else
                event_stream_cut(s);
}

void event_stream_finish(struct event_stream *s)
{
        if (s->x)
                http_end(s->x->rq);
        event_stream_end(s);
}

void event_stream_cut(struct event_stream *s)
{
        if (s->x)
                http_abort(s->x->rq);
        event_stream_end(s);
}

void event_stream_end(struct event_stream *s)
{
        timer_clear(&s->alive);
        s->x = NULL;
}
