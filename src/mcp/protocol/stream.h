/* stream.h - how messages reach a client: the answer to one HTTP request, or lines of stdout.
 *
 *      UNDECIDED ──a notification, or the answer takes long──> EVENTS ──all calls answered──> ENDED
 *          └──the answer is there──> ENDED (one JSON document)     │  ▲
 *                                              the client is gone ──▼  │── Last-Event-ID
 *                                                                 DETACHED
 *
 * A POST with requests begins undecided: quick answers are one JSON document, others become server-sent events.  A GET is a stream of
 * events from the start, for what belongs to no request; it ends with its client.  Events have ids "<stream>-<number>".  A client that
 * lost a stream comes back with the id of its last event, and gets what it missed: the newest STREAM_KEPT_BYTES of events are kept
 * until the stream has ended, and kept_ms (mcp_options) longer, unless the session needs the room for newer streams.  Since 2025-11-25 a
 * stream begins with the id "<stream>-0" alone, so that a client can come back before the first message.
 *
 * A stream of lines is in EVENTS as long as its session, hands over each message at once and keeps none. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/str.h"
#include "io/loop.h"
#include "mcp/protocol/mcp.h"

struct http_request;
struct session;

#define STREAM_DECIDE_MS 250u
#define STREAM_KEEPALIVE_MS 15000u
#define STREAM_KEPT_BYTES (1u << 20)
#define STREAM_QUEUED_BYTES_MAX (8u << 20) /* towards a client that does not read: more, and its connection is cut */
#define STREAMS_STATELESS_MAX 1024u
#define STREAMS_MAX                                                                                                    \
        (MCP_CALLS_MAX + 64u) /* of one session, with calls under way or a client; some for what cancels calls */
#define STREAMS_KEPT_MAX 16u  /* of one session, beside those: ended, for a client that comes back */
#define STREAMS_KEPT_BYTES (8u << 20) /* ... with so many bytes of events, or only the newest of them */

enum stream_state { STREAM_UNDECIDED, STREAM_EVENTS, STREAM_DETACHED, STREAM_ENDED };

struct stream {
        struct list node; /* of session->streams */
        struct session *session;
        struct http_request *rq; /* NULL: the client is gone */
        enum stream_state state;
        uint32_t id;
        bool is_standalone; /* a GET: ends with its client */
        bool is_batch;      /* the answer is an array */
        unsigned waiting;   /* calls without an answer */
        json_t *answers;    /* owned, of a batch while undecided: an array */
        uint64_t last_event;
        struct list events; /* of struct stream_event, kept for a client that comes back */
        size_t kept_bytes;
        /* A stream of lines: takes one message.  may_drop: it matters little, and is left out where much waits. */
        void (*on_line)(struct str message, bool may_drop, void *arg);
        void *line_arg;
        struct timer timer; /* undecided: become events; events: keepalive; ended: forget */
        struct task gone;
};

/* For a POST: the stream takes rq's callbacks.  NULL: out of memory, or too many streams. */
struct stream *stream_open(struct session *s, struct http_request *rq, bool is_batch);
/* For a GET: events at once. */
struct stream *stream_open_standalone(struct session *s, struct http_request *rq);
struct stream *stream_open_lines(struct session *s, void (*on_line)(struct str message, bool may_drop, void *arg),
                                 void *arg);
/* A client comes back with the id of the last event it saw: -ENOENT: no such stream any more; -EBUSY: someone listens. */
int stream_resume(struct session *s, struct http_request *rq, const char *last_event_id);
bool stream_has_client(const struct stream *st); /* now; a client that left may come back */
/* A call was begun on this stream; stream_answer() ends it. */
void stream_expect(struct stream *st);
void stream_answer(struct stream *st,
                   json_t *message); /* takes message; NULL: no memory for one, or a call without answer */
void stream_notify(struct stream *st, json_t *message); /* takes message */
/* The stream that carries what belongs to no request; NULL: the client has opened none. */
struct stream *stream_standalone(struct session *s);
/* All calls of the POST were begun: without any left to wait for, the answer leaves. */
void stream_begun(struct stream *st);
void stream_free(struct stream *st); /* cuts the connection if there is one */
