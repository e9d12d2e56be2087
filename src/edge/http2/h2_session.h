/* h2_session.h - an HTTP/2 connection: frames in and out, by nghttp2; each of its streams is a client (h2_stream.h).
 *
 * Frames leave in one go at the end of a loop iteration (`flush`), so frames of many streams share packets and TLS records.
 * The library's callbacks only note what happened and put the stream into `touched`; the streams advance afterwards.
 *
 *   GREETING ──→ OPEN      the client's first SETTINGS came
 *   OPEN ←─────→ STOPPING  the role ends and the client was told; GOAWAY follows when the client has answered a ping
 *   any of them ──→ LINGER (everything is said: wait for the client's end) ──→ CLOSED */
#pragma once
#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "edge/http2/h2_head.h"
#include "edge/limits/budget.h"
#include "edge/limits/limits.h"
#include "edge/message/block.h"
#include "edge/proxy/client_conn.h"
#include "io/loop.h"

struct edge;
struct h2_setup; /* what all connections share */

enum h2_session_state { H2_GREETING, H2_OPEN, H2_STOPPING, H2_LINGER, H2_CLOSED };

struct h2_session {
        struct client_conn conn;
        enum h2_session_state state;
        nghttp2_session *session; /* owned; NULL: the connection lingers or is closed */
        struct list streams;      /* struct h2_stream */
        size_t stream_count;
        struct list touched; /* streams to advance */
        struct block out;    /* owned: frames on their way out */
        struct h2_head head; /* of the request that comes in */
        bool is_collecting;  /* ... and is not complete */
        bool is_sending;     /* frames are being collected: a change now needs no other flush */
        struct budget resets, chatter;
        struct timer timer; /* GREETING; then idle; then LINGER */
        struct timer head_timer;
        struct task flush, gone;
};

struct h2_setup *h2_setup_create(const struct edge *e); /* NULL: out of memory */
struct h2_setup *h2_setup_free(struct h2_setup *s);
/* Take over a connection whose first bytes (p) were read already.  *from is empty afterwards in any case. */
void h2_session_take_over(struct edge *e, struct stream *from, const void *p, size_t n);
/* For streams: something was submitted, or a stream left. */
void h2_session_changed(struct h2_session *h);
