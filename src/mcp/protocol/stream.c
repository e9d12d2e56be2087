#include "mcp/protocol/stream.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "http/server.h"
#include "mcp/protocol/call.h"
#include "mcp/protocol/endpoint.h"
#include "mcp/protocol/mcp.h"
#include "mcp/protocol/session.h"
#include "mcp/protocol/versions.h"

struct stream_event {
        struct list node;
        uint64_t number;
        size_t n;
        char text[];
};

static void event_drop(struct stream *st, struct stream_event *e)
{
        list_remove(&e->node);
        st->kept_bytes -= e->n;
        free(e);
}

static void stream_run_gone(struct task *t)
{
        struct stream *st = CONTAINER_OF(t, struct stream, gone);

        if (st->is_standalone && st->session->is_old_transport)
                session_end(st->session); /* there, a session is its stream */
        else
                stream_free(st);
}

void stream_free(struct stream *st)
{
        LIST_EACH (at, &st->session->calls) {
                struct call *c = LIST_ENTRY(at, struct call, node);

                if (c->stream == st)
                        c->stream = NULL;
        }
        while (!list_is_empty(&st->events))
                event_drop(st, LIST_ENTRY(st->events.next, struct stream_event, node));
        if (st->rq) {
                st->rq->user = NULL;
                st->rq->on_close = NULL;
                http_abort(st->rq);
        }
        timer_clear(&st->timer);
        loop_unpost(&st->gone);
        list_remove(&st->node);
        json_decref(st->answers);
        free(st);
}

/* Freed by the loop: a caller may still look at the stream. */
static void stream_forget(struct stream *st)
{
        st->state = STREAM_ENDED;
        timer_clear(&st->timer);
        loop_post(st->session->mcp->loop, &st->gone);
}

static void stream_forget_later(struct stream *st)
{
        timer_set(st->session->mcp->loop, &st->timer, st->session->mcp->opt.kept_ms);
}

static void write_event(struct stream *st, const struct stream_event *e)
{
        char id[64];
        int n = snprintf(id, sizeof(id), "event: message\nid: %" PRIu32 "-%" PRIu64 "\ndata: ", st->id, e->number);

        if (!st->rq)
                return;
        if (http_queued(st->rq) > STREAM_QUEUED_BYTES_MAX) {
                http_abort(st->rq); /* on_close follows: the client may come back for the rest */
                return;
        }
        (void)http_write(st->rq, id, (size_t)n);
        (void)http_write(st->rq, e->text, e->n);
        (void)http_write(st->rq, "\n\n", 2);
}

static void send_line(struct stream *st, const json_t *message, bool may_drop)
{
        AUTO_FREE char *text = json_dumps(message, JSON_COMPACT);

        if (text)
                st->on_line(str_of(text), may_drop, st->line_arg);
}

static void send_message(struct stream *st, const json_t *message)
{
        size_t n = json_dumpb(message, NULL, 0, JSON_COMPACT);
        struct stream_event *e = n ? malloc(sizeof(*e) + n) : NULL;

        if (!e)
                return;
        e->number = ++st->last_event;
        e->n = n;
        (void)json_dumpb(message, e->text, n, JSON_COMPACT);
        list_push_back(&st->events, &e->node);
        st->kept_bytes += n;
        write_event(st, e);
        while (st->kept_bytes > STREAM_KEPT_BYTES && st->events.next != &e->node)
                event_drop(st, LIST_ENTRY(st->events.next, struct stream_event, node));
        if (st->state == STREAM_EVENTS)
                timer_set(st->session->mcp->loop, &st->timer, STREAM_KEEPALIVE_MS);
}

static void begin_events(struct stream *st)
{
        st->state = STREAM_EVENTS;
        if (st->rq)
                endpoint_start_events(st->rq, st->session);
        timer_set(st->session->mcp->loop, &st->timer, STREAM_KEEPALIVE_MS);
}

/* An id to come back with, before there is any message.  Clients of older revisions take the empty data for a message. */
static void send_first_id(struct stream *st)
{
        char text[64];
        int n = snprintf(text, sizeof(text), "id: %" PRIu32 "-0\ndata: \n\n", st->id);

        if (st->rq && protocol_has_first_id(st->session->version) && !st->session->is_stateless)
                (void)http_write(st->rq, text, (size_t)n);
}

static void become_events(struct stream *st)
{
        json_t *answer;
        size_t i;

        begin_events(st);
        send_first_id(st);
        json_array_foreach (st->answers, i, answer) {
                send_message(st, answer);
        }
        json_decref(st->answers);
        st->answers = NULL;
}

static void stream_on_timer(struct timer *t)
{
        struct stream *st = CONTAINER_OF(t, struct stream, timer);

        switch (st->state) {
        case STREAM_UNDECIDED: become_events(st); break;
        case STREAM_EVENTS:
                if (st->rq)
                        (void)http_write(st->rq, ": \n\n", 4);
                timer_set(st->session->mcp->loop, &st->timer, STREAM_KEEPALIVE_MS);
                break;
        case STREAM_DETACHED: break; /* its timer is not armed */
        case STREAM_ENDED: stream_forget(st); break;
        }
}

/* Where there are no sessions, a client that leaves has cancelled its request, and cannot come back for the answer. */
static void cancel_calls(struct stream *st)
{
        LIST_EACH (at, &st->session->calls) {
                struct call *c = LIST_ENTRY(at, struct call, node);

                if (c->stream == st)
                        call_cancel(c);
        }
}

static void forget_oldest(struct session *s);

static void stream_on_close(struct http_request *rq, bool is_complete)
{
        struct stream *st = rq->user;

        (void)is_complete;
        if (!st)
                return;
        st->rq = NULL;
        session_touch(st->session);
        if (st->session->is_stateless)
                cancel_calls(st);
        if (st->is_standalone || st->session->is_stateless || (st->state == STREAM_UNDECIDED && st->waiting == 0)) {
                stream_forget(st);
        } else if (st->state == STREAM_ENDED) {
                stream_forget_later(st);
                forget_oldest(st->session);
        } else {
                if (st->state == STREAM_UNDECIDED)
                        become_events(st);
                st->state =
                        STREAM_DETACHED; /* calls go on, as long as they take: a client may come back for the answers */
                timer_clear(&st->timer);
        }
}

static bool is_kept(const struct stream *st)
{
        return st->state == STREAM_ENDED && !st->rq;
}

/* Streams that have ended are kept for clients that come back: the newest ones, as far as the limits go. */
static void forget_oldest(struct session *s)
{
        size_t kept = 0, bytes = 0;

        LIST_EACH (at, &s->streams) {
                struct stream *st = LIST_ENTRY(at, struct stream, node);

                kept += is_kept(st);
                bytes += is_kept(st) ? st->kept_bytes : 0;
        }
        LIST_EACH (at, &s->streams) {
                struct stream *st = LIST_ENTRY(at, struct stream, node);

                if (kept <= 1 || (kept <= STREAMS_KEPT_MAX && bytes <= STREAMS_KEPT_BYTES))
                        break;
                if (is_kept(st)) {
                        kept--;
                        bytes -= st->kept_bytes;
                        stream_forget(st);
                }
        }
}

static unsigned count_busy(const struct session *s)
{
        unsigned busy = 0;

        LIST_EACH (at, &s->streams)
                busy += !is_kept(LIST_ENTRY(at, struct stream, node));
        return busy;
}

static struct stream *stream_create(struct session *s)
{
        unsigned most = s->is_stateless ? STREAMS_STATELESS_MAX : STREAMS_MAX;
        struct stream *st = count_busy(s) < most ? calloc(1, sizeof(*st)) : NULL;

        if (!st)
                return NULL;
        forget_oldest(s);
        st->session = s;
        st->id = ++s->next_stream;
        st->timer.on = stream_on_timer;
        st->gone.run = stream_run_gone;
        list_init(&st->events);
        list_push_back(&s->streams, &st->node);
        return st;
}

static void answer_by(struct stream *st, struct http_request *rq)
{
        st->rq = rq;
        rq->user = st;
        rq->on_close = stream_on_close;
}

struct stream *stream_open(struct session *s, struct http_request *rq, bool is_batch)
{
        struct stream *st = stream_create(s);

        if (!st)
                return NULL;
        answer_by(st, rq);
        st->is_batch = is_batch;
        st->answers = json_array();
        timer_set(s->mcp->loop, &st->timer, STREAM_DECIDE_MS);
        return st;
}

struct stream *stream_open_standalone(struct session *s, struct http_request *rq)
{
        struct stream *st = stream_create(s);

        if (!st)
                return NULL;
        answer_by(st, rq);
        st->is_standalone = true;
        begin_events(st);
        if (s->mcp->backend->session_listens)
                s->mcp->backend->session_listens(s);
        return st;
}

struct stream *stream_open_lines(struct session *s, void (*on_line)(struct str message, bool may_drop, void *arg),
                                 void *arg)
{
        struct stream *st = stream_create(s);

        if (!st)
                return NULL;
        st->is_standalone = true;
        st->state = STREAM_EVENTS;
        st->on_line = on_line;
        st->line_arg = arg;
        return st;
}

struct stream *stream_standalone(struct session *s)
{
        LIST_EACH (at, &s->streams) {
                struct stream *st = LIST_ENTRY(at, struct stream, node);

                if (st->is_standalone && st->state == STREAM_EVENTS)
                        return st;
        }
        return NULL;
}

static struct stream *find_stream(struct session *s, uint32_t id)
{
        LIST_EACH (at, &s->streams) {
                struct stream *st = LIST_ENTRY(at, struct stream, node);

                if (st->id == id && !st->is_standalone && !list_is_hooked(&st->gone.node))
                        return st;
        }
        return NULL;
}

static void end_events(struct stream *st)
{
        st->state = STREAM_ENDED;
        if (st->rq)
                http_end(st->rq); /* on_close follows */
        else
                stream_forget_later(st);
}

int stream_resume(struct session *s, struct http_request *rq, const char *last_event_id)
{
        struct str rest = str_of(last_event_id), head;
        struct stream *st = NULL;
        uint64_t seen = 0;
        uint32_t id = 0;

        if (str_cut(&rest, '-', &head) && parse_u32(head, 1, UINT32_MAX, &id) == 0 &&
            parse_u64(rest, 0, UINT64_MAX, &seen) == 0)
                st = find_stream(s, id);
        if (!st)
                return -ENOENT;
        if (st->rq)
                return -EBUSY;
        answer_by(st, rq);
        begin_events(st);
        LIST_EACH (at, &st->events) {
                struct stream_event *e = LIST_ENTRY(at, struct stream_event, node);

                if (e->number > seen)
                        write_event(st, e);
        }
        if (st->waiting == 0)
                end_events(st);
        return 0;
}

bool stream_has_client(const struct stream *st)
{
        return st->rq || st->on_line;
}

void stream_expect(struct stream *st)
{
        st->waiting++;
}

/* The answer is one document.  The server has it from here on: nothing is left to come back for. */
static void reply_at_once(struct stream *st)
{
        struct http_request *rq = TAKE_PTR(st->rq);
        json_t *body = NULL;

        if (json_array_size(st->answers) > 0)
                body = st->is_batch ? st->answers : json_array_get(st->answers, 0);
        if (rq) {
                rq->user = NULL;
                rq->on_close = NULL;
                endpoint_reply_json(rq, st->session, body);
        }
        stream_forget(st);
}

static void stream_complete(struct stream *st)
{
        if (st->state == STREAM_UNDECIDED)
                reply_at_once(st);
        else if (!st->is_standalone && st->state != STREAM_ENDED)
                end_events(st);
}

void stream_answer(struct stream *st, json_t *message)
{
        st->waiting--;
        if (message && st->on_line)
                send_line(st, message, false);
        else if (message && st->state == STREAM_UNDECIDED)
                (void)json_array_append(st->answers, message);
        else if (message)
                send_message(st, message);
        json_decref(message);
        if (st->waiting == 0)
                stream_complete(st);
}

void stream_begun(struct stream *st)
{
        if (--st->waiting == 0)
                stream_complete(st);
}

void stream_notify(struct stream *st, json_t *message)
{
        if (message && st->state == STREAM_UNDECIDED)
                become_events(st);
        if (message && st->on_line)
                send_line(st, message, true);
        else if (message && st->state != STREAM_ENDED)
                send_message(st, message);
        json_decref(message);
}
