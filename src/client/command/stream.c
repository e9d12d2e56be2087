#include "client/command/stream.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "wire/connect.h"

#define MESSAGE_MAX (8u << 20)
#define REQUEST_MAX (16u << 20)
#define REFUSAL_MAX (64u << 10)
#define POLL_TURNS_MAX 64u

enum sg_error_kind kind_of_connect_code(const char *code)
{
        static const struct {
                const char *code;
                enum sg_error_kind kind;
        } known[] = {
                {"invalid_argument", SG_INVALID},  {"not_found", SG_NOT_FOUND},
                {"already_exists", SG_CONFLICT},   {"failed_precondition", SG_CONFLICT},
                {"aborted", SG_CONFLICT},          {"permission_denied", SG_DENIED},
                {"unauthenticated", SG_DENIED},    {"resource_exhausted", SG_LIMIT},
                {"unimplemented", SG_UNSUPPORTED}, {"deadline_exceeded", SG_TIMEOUT},
                {"canceled", SG_TIMEOUT},          {"unavailable", SG_UNAVAILABLE},
                {"out_of_range", SG_INVALID},
        };

        for (size_t i = 0; code && i < ARRAY_LEN(known); i++)
                if (strcmp(code, known[i].code) == 0)
                        return known[i].kind;
        return SG_INTERNAL;
}

/* ---- messages ---- */

void stream_wake(struct rpc_stream *s)
{
        s->is_woken = true;
        loop_stop(s->lane->loop);
}

static void stream_go(struct rpc_stream *s, enum stream_state next)
{
        s->state = next;
        stream_wake(s);
}

static void stream_fail(struct rpc_stream *s, int r)
{
        (void)r; /* s->why says it */
        if (!stream_is_over(s))
                stream_go(s, STREAM_FAILED);
}

static void take_end(struct rpc_stream *s, const json_t *message)
{
        const json_t *error = json_object_get(message, "error");
        const char *words = json_string_value(json_object_get(error, "message"));
        const char *code = json_string_value(json_object_get(error, "code"));

        if (!error) {
                stream_go(s, STREAM_ENDED);
                return;
        }
        stream_fail(s, error_set(&s->why, kind_of_connect_code(code), "%s", words ? words : code ? code : "it failed"));
}

static void take_envelope(struct rpc_stream *s, uint8_t flags, struct str payload)
{
        json_t *message = json_loadb(payload.p, payload.n, 0, NULL);
        int r;

        if (!json_is_object(message)) {
                stream_fail(s, error_set(&s->why, SG_INTERNAL, "the sandbox sent a broken message"));
        } else if (flags & CONNECT_FLAG_END) {
                take_end(s, message);
        } else {
                if (s->state == STREAM_OPENING)
                        s->state = STREAM_OPEN;
                r = s->on_message(s, message, &s->why);
                if (r < 0)
                        stream_fail(s, r);
                else
                        s->has_message = true;
        }
        json_decref(message);
}

static void take_bytes(struct rpc_stream *s, struct str piece)
{
        struct str payload;
        uint8_t flags;
        size_t used;
        int n, r = buf_add(&s->frames, piece.p, piece.n);

        if (r < 0)
                stream_fail(s, error_sys(&s->why, r, "keep what the sandbox sent"));
        while (!stream_is_over(s)) {
                n = connect_envelope_parse(buf_at(&s->frames), s->frames.len, MESSAGE_MAX, &flags, &payload, &used);
                if (n == 0)
                        break;
                if (n < 0 || (flags & CONNECT_FLAG_COMPRESSED)) {
                        stream_fail(s, error_set(&s->why, SG_INTERNAL, "the sandbox sent a broken message"));
                        break;
                }
                take_envelope(s, flags, payload);
                buf_consume(&s->frames, used);
        }
}

/* ---- the call ---- */

static void call_head(struct http_call *call, void *arg)
{
        struct rpc_stream *s = arg;

        s->status = http_call_head(call)->status;
}

static size_t call_data(struct http_call *call, struct str piece, void *arg)
{
        struct rpc_stream *s = arg;

        (void)call;
        if (s->status != 200) {
                size_t room = buf_room(&s->refusal);

                (void)buf_add(&s->refusal, piece.p, piece.n < room ? piece.n : room);
        } else if (!stream_is_over(s)) {
                take_bytes(s, piece);
        }
        return piece.n;
}

static void call_end(struct http_call *call, const struct err *why, void *arg)
{
        struct rpc_stream *s = arg;
        const struct err cut = why ? *why : (struct err){0}; /* it goes with the call */

        s->has_sent = http_call_has_sent(call);
        s->call = http_call_free(call);
        if (stream_is_over(s))
                return;
        if (s->status && s->status != 200) {
                stream_fail(s, error_refused(&s->why, s->status, 0,
                                             (struct str){(const char *)buf_at(&s->refusal), s->refusal.len}));
                return;
        }
        if (cut.kind != ERR_NONE)
                (void)error_from(&s->why, &cut);
        else
                (void)error_set(&s->why, SG_UNAVAILABLE, "the stream ended too early");
        stream_go(s, STREAM_CUT);
}

static void wake_came(struct io *io, uint32_t events)
{
        uint64_t count;

        (void)events;
        (void)!read(io->fd, &count, sizeof(count));
}

void stream_prepare(struct rpc_stream *s, struct sg_sandbox *box,
                    int (*on_message)(struct rpc_stream *, const json_t *, struct sg_error *))
{
        *s = (struct rpc_stream){.box = box,
                                 .frames = BUF_INIT(MESSAGE_MAX + (1u << 20)),
                                 .refusal = BUF_INIT(REFUSAL_MAX),
                                 .wake = {.fd = -1, .on = wake_came},
                                 .on_message = on_message};
}

static int stream_take_lane(struct rpc_stream *s, const char *url, struct limit *l, struct sg_error *err)
{
        int r;

        if (s->lane)
                return 0;
        r = lane_take(s->box->client, url, l, &s->lane, err);
        if (r < 0)
                return r;
        s->wake.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        r = s->wake.fd < 0 ? -errno : loop_add(s->lane->loop, &s->wake, EPOLLIN);
        return r < 0 ? error_sys(err, r, "wait for the sandbox") : 0;
}

static int stream_call(struct rpc_stream *s, const struct stream_open *open, struct box_headers *headers,
                       struct str body, struct sg_error *err)
{
        char ms[16];
        const struct http_call_options opt = {.method = "POST",
                                              .target = open->target,
                                              .headers = headers->list,
                                              .content_type = "application/connect+json",
                                              .body = body,
                                              .agent = s->box->client->agent,
                                              .reuses_connection = true,
                                              .on_head = call_head,
                                              .on_data = call_data,
                                              .on_end = call_end,
                                              .arg = s};
        struct err why = {0};
        int r;

        box_headers_add(headers, "Connect-Protocol-Version", "1");
        box_headers_add(headers, "Keepalive-Ping-Interval", "50");
        if (open->replay_from)
                box_headers_add(headers, "Sandglass-Replay-From", open->replay_from);
        (void)snprintf(ms, sizeof(ms), "%u", open->kill_after_ms);
        if (open->kill_after_ms)
                box_headers_add(headers, "Connect-Timeout-Ms", ms);
        r = http_call_start(s->lane->http, &opt, &s->call, &why);
        return r < 0 ? error_from(err, &why) : 0;
}

int stream_begin(struct rpc_stream *s, const struct stream_open *open, struct limit *l, struct sg_error *err)
{
        AUTO_FREE char *text = json_dumps(open->message, JSON_COMPACT);
        AUTO(box_headers_done) struct box_headers headers = {0};
        AUTO_BUF struct buf body = BUF_INIT(REQUEST_MAX);
        int r = text ? connect_envelope_add(&body, 0, text, strlen(text)) : -ENOMEM;

        if (r == -E2BIG)
                return error_set(err, SG_TOO_LARGE, "the request has more than %u MiB", REQUEST_MAX >> 20);
        if (r < 0)
                return error_no_memory(err);
        r = box_headers_fill(&headers, s->box, ENVD_PORT_NUMBER, open->user, err);
        if (r == 0)
                r = stream_take_lane(s, headers.url, l, err);
        if (r < 0)
                return r;
        s->call = http_call_free(s->call);
        buf_reset(&s->frames);
        buf_reset(&s->refusal);
        s->state = STREAM_OPENING;
        s->has_sent = s->has_message = s->is_woken = false;
        s->status = 0;
        r = stream_call(s, open, &headers, (struct str){(const char *)buf_at(&body), body.len}, err);
        if (r < 0)
                s->state = STREAM_CLOSED;
        return r;
}

static int stream_first(struct rpc_stream *s, const struct stream_open *open, struct limit *l, struct sg_error *err)
{
        int r = stream_begin(s, open, l, err);

        while (r == 0 && s->state == STREAM_OPENING)
                r = stream_wait(s, l, err);
        if (r == 0 && !s->has_message && (s->state == STREAM_FAILED || s->state == STREAM_CUT))
                r = error_pass(err, &s->why);
        return r;
}

int stream_open_wait(struct rpc_stream *s, const struct stream_open *open, struct limit *l, struct sg_error *err)
{
        for (unsigned tries = 0;; tries++) {
                struct sg_error why = {0};
                int r = stream_first(s, open, l, &why);

                if (r == 0)
                        return 0;
                if (s->call)
                        s->has_sent = http_call_has_sent(s->call);
                if (why.kind != SG_UNAVAILABLE || s->has_sent || tries >= s->box->client->retries ||
                    limit_sleep(l, retry_pause_ms(tries, 0), NULL) < 0) {
                        r = error_pass(err, &why);
                        return box_explain(s->box, l, r, err);
                }
        }
}

/* ---- waiting ---- */

/* What came may be handled already, or wait in a task: nothing that the loop's fd tells an event loop by itself. */
static void stream_nudge(const struct rpc_stream *s)
{
        const uint64_t one = 1;

        (void)!write(s->wake.fd, &one, sizeof(one)); /* full: then it is readable already */
}

int stream_wait(struct rpc_stream *s, struct limit *l, struct sg_error *err)
{
        struct sg_error why = {0};
        int r = 0;

        if (!s->is_woken && !stream_is_over(s))
                r = limit_run(l, s->lane->loop, &why);
        stream_nudge(s);
        if (s->is_woken || stream_is_over(s)) {
                s->is_woken = false;
                return 0;
        }
        return r < 0 ? error_pass(err, &why) : 0;
}

struct turn { /* of the loop: what is there now, and no waiting */
        struct task task;
        struct loop *loop;
};

static void turn_is_over(struct task *t)
{
        loop_stop(CONTAINER_OF(t, struct turn, task)->loop);
}

int stream_poll(struct rpc_stream *s, struct sg_error *err)
{
        int r = 0;

        for (unsigned turns = 0; r == 0 && !stream_is_over(s) && turns < POLL_TURNS_MAX; turns++) {
                struct turn turn = {.task = {.run = turn_is_over}, .loop = s->lane->loop};

                loop_post(turn.loop, &turn.task);
                r = loop_run(turn.loop);
                loop_unpost(&turn.task);
                if (!loop_has_tasks(s->lane->loop))
                        break;
        }
        s->is_woken = false;
        if (r < 0)
                return error_sys(err, r, "wait for the sandbox");
        if (s->lane && loop_has_tasks(s->lane->loop))
                stream_nudge(s);
        return 0;
}

void stream_close(struct rpc_stream *s)
{
        s->call = http_call_free(s->call);
        if (s->wake.fd >= 0) {
                loop_del(&s->wake);
                close_fd(&s->wake.fd);
        }
        if (s->lane) {
                s->lane->is_broken = s->state == STREAM_CUT && !s->has_sent;
                lane_give_back(s->box->client, s->lane);
        }
        s->lane = NULL;
        buf_done(&s->frames);
        buf_done(&s->refusal);
        s->state = STREAM_CLOSED;
}
