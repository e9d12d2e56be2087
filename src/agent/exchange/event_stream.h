/* event_stream.h - an answer as server-sent events (text/event-stream). */
#pragma once
#include <jansson.h>
#include <stdint.h>

#include "io/loop.h"

struct exchange;

struct event_stream {       /* zeroed: not begun */
        struct exchange *x; /* borrowed; NULL: not begun, or over */
        struct timer alive; /* a comment now and then tells proxies, and us, that both ends are there */
};

void event_stream_begin(struct event_stream *s, struct exchange *x); /* the head of the answer */
/* One event.  id NULL: none.  Steals data; NULL: out of memory, the stream is cut. */
void event_stream_send(struct event_stream *s, const char *event, const uint64_t *id, json_t *data);
void event_stream_finish(struct event_stream *s); /* the proper end of the answer */
void event_stream_cut(struct event_stream *s);    /* the client must not take it for the end */
void event_stream_end(struct event_stream *s);    /* the exchange is over; fine when not begun */
