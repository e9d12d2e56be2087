#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "http/client_impl.h"

#define TO(s) (1u << (s))
static const unsigned call_may[] = {
        [CALL_CONNECTING] = TO(CALL_HEAD) | TO(CALL_ENDED) | TO(CALL_ABANDONED),
        [CALL_HEAD] = TO(CALL_CONNECTING) | TO(CALL_BODY) | TO(CALL_ENDED) | TO(CALL_ABANDONED),
        [CALL_BODY] = TO(CALL_ENDED) | TO(CALL_ABANDONED),
        [CALL_ENDED] = TO(CALL_ABANDONED),
        [CALL_ABANDONED] = 0,
};

void call_go(struct http_call *call, enum call_state next)
{
        bool may = call_may[call->state] & TO(next);

        assert(may);
        call->state = may ? next : call->state; /* libsandglass has no asserts */
}

bool call_is_exchanging(const struct http_call *call)
{
        return call->state == CALL_HEAD || call->state == CALL_BODY;
}

/* ---- failures ---- */

static bool call_is_open(const struct http_call *call)
{
        return call->state != CALL_ENDED && call->state != CALL_ABANDONED;
}

void call_fail(struct http_call *call, enum err_kind kind, const char *fmt, ...)
{
        char text[sizeof(call->why.msg)];
        va_list ap;

        if (!call_is_open(call))
                return;
        va_start(ap, fmt);
        (void)vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        (void)err_set(&call->why, kind, "%s", text);
        call_go(call, CALL_ENDED);
}

void call_fail_sys(struct http_call *call, int r, const char *what)
{
        const char *host = call->client->origin.host;
        const char *distrust = call->conn ? stream_distrust(&call->conn->stream) : NULL;

        if (distrust) {
                call_fail(call, ERR_DENIED, "the certificate of %s is not trusted: %s", host, distrust);
                return;
        }
        if (!call_is_open(call))
                return;
        (void)err_sys(&call->why, r, "%s %s", what, host);
        if (call->why.kind == ERR_INTERNAL)
                call->why.kind = ERR_UNAVAILABLE;
        call_go(call, CALL_ENDED);
}

/* ---- waiting ---- */

/* Bytes that the server has to take or to send: nothing else is waited for. */
static bool is_servers_turn(const struct http_call *call)
{
        return call_unsent(call) || (!call->is_paused && call->sending != SENDING_WAITS);
}

static void call_set_timer(struct http_call *call, struct timer *t, uint32_t ms)
{
        if (ms == HTTP_NO_TIMEOUT)
                timer_clear(t);
        else
                timer_set(call->client->loop, t, ms);
}

static void call_wait_for_server(struct http_call *call)
{
        uint32_t want =
                (call->is_paused ? 0 : EPOLLIN) | (call_unsent(call) && call->sending == SENDING_BYTES ? EPOLLOUT : 0);

        /* Without anything to wait for, the end of the connection would be told again and again: once is enough. */
        stream_want(&call->conn->stream, want ? want : EPOLLONESHOT);
        if (!is_servers_turn(call))
                timer_clear(&call->timer);
        else if (call->has_moved || !timer_is_armed(&call->timer))
                call_set_timer(call, &call->timer, call->timeouts.idle_ms);
        call->has_moved = false;
}

/* ---- ends ---- */

static bool call_is_keepable(const struct http_call *call)
{
        return call->conn && call->why.kind == ERR_NONE && call->has_head && call->head.keep_alive &&
               call->sending == SENDING_OVER && call_unsent(call) == 0 && call->in.len == 0 &&
               call->body.framing != HTTP1_BODY_EOF;
}

static void call_release_connection(struct http_call *call)
{
        timer_clear(&call->timer);
        timer_clear(&call->total_timer);
        loop_unpost(&call->task);
        if (call_is_keepable(call))
                client_keep(call->client, TAKE_PTR(call->conn));
        call_connect_close(call);
}

static void call_destroy(struct http_call *call)
{
        call->client->call_count--;
        buf_done(&call->out);
        buf_done(&call->in);
        buf_done(&call->head_bytes);
        free(call);
}

struct http_call *http_call_free(struct http_call *call)
{
        if (!call)
                return NULL;
        if (call->state != CALL_ENDED && call->why.kind == ERR_NONE)
                call->why.kind = ERR_INTERRUPTED; /* its connection is in the middle of something */
        if (call->state != CALL_ABANDONED)
                call_go(call, CALL_ABANDONED);
        call_release_connection(call);
        if (!call->is_running)
                call_destroy(call);
        return NULL;
}

/* ---- moving on ---- */

static void call_wait(struct http_call *call)
{
        if (call_is_exchanging(call)) {
                call_wait_for_server(call);
                return;
        }
        if (call->conn)
                stream_want(&call->conn->stream, EPOLLOUT);
        if (!timer_is_armed(&call->timer))
                call_set_timer(call, &call->timer, call->timeouts.connect_ms);
}

static void call_settle(struct http_call *call) /* after the steps: wait, or end */
{
        if (call->state == CALL_ABANDONED) {
                call_destroy(call);
        } else if (call->state != CALL_ENDED) {
                call_wait(call);
        } else {
                call_release_connection(call);
                if (call->opt.on_end) /* the last word: the call may be gone after it */
                        call->opt.on_end(call, call->why.kind == ERR_NONE ? NULL : &call->why, call->opt.arg);
        }
}

void call_advance(struct http_call *call)
{
        enum call_state before;

        call->is_running = true;
        do {
                before = call->state;
                if (call->state == CALL_CONNECTING)
                        call_connect(call);
                if (call_is_exchanging(call))
                        call_send(call);
                if (call_is_exchanging(call))
                        call_receive(call);
        } while (call->state != before && call->state < CALL_ENDED);
        call->is_running = false;
        call_settle(call);
}

static void call_task(struct task *t)
{
        call_advance(CONTAINER_OF(t, struct http_call, task));
}

static void call_waited_too_long(struct timer *t)
{
        struct http_call *call = CONTAINER_OF(t, struct http_call, timer);
        const char *host = call->client->origin.host;

        if (call->state == CALL_CONNECTING)
                call_fail(call, ERR_TIMEOUT, "no connection to %s within %g s", host, call->timeouts.connect_ms / 1e3);
        else
                call_fail(call, ERR_TIMEOUT, "%s was silent for %g s", host, call->timeouts.idle_ms / 1e3);
        call_settle(call);
}

static void call_took_too_long(struct timer *t)
{
        struct http_call *call = CONTAINER_OF(t, struct http_call, total_timer);

        call_fail(call, ERR_TIMEOUT, "no answer from %s within %g s", call->client->origin.host,
                  call->timeouts.total_ms / 1e3);
        call_settle(call);
}

/* ---- starting ---- */

static struct http_timeouts with_defaults(struct http_timeouts t)
{
        return (struct http_timeouts){
                .connect_ms = t.connect_ms ? t.connect_ms : HTTP_CONNECT_MS,
                .idle_ms = t.idle_ms ? t.idle_ms : HTTP_IDLE_MS,
                .total_ms = t.total_ms ? t.total_ms : HTTP_NO_TIMEOUT,
        };
}

/* Done twice it has the same effect as done once (RFC 9110, 9.2.2), and the bytes are still there. */
static bool call_is_idempotent(const struct http_call_options *opt)
{
        static const char *const methods[] = {"GET", "HEAD", "PUT", "DELETE"};

        for (size_t i = 0; i < ARRAY_LEN(methods); i++)
                if (strcmp(opt->method, methods[i]) == 0)
                        return !opt->on_send;
        return false;
}

int http_call_start(struct http_client *c, const struct http_call_options *opt, struct http_call **ret, struct err *err)
{
        struct http_call *call;
        int r;

        if (c->uses_given_connection && !c->kept)
                return err_set(err, ERR_UNAVAILABLE, "there is no connection to %s (any more)", c->origin.host);
        call = calloc(1, sizeof(*call));
        if (!call)
                return err_set(err, ERR_LIMIT, "out of memory");
        *call = (struct http_call){
                .client = c,
                .opt = *opt,
                .timeouts = with_defaults(c->timeouts),
                .is_repeatable = call_is_idempotent(opt) && !c->uses_given_connection,
                .is_on_kept = call_is_idempotent(opt) || opt->reuses_connection || c->uses_given_connection,
                .timer = {.on = call_waited_too_long},
                .total_timer = {.on = call_took_too_long},
                .task = {.run = call_task},
                .connecting = {.fd = -1},
                .next_address = c->addresses,
                .out = {.max = CLIENT_REQUEST_BYTES_MAX, .is_secret = opt->is_secret},
                .to_head = strcmp(opt->method, "HEAD") == 0,
                .in = {.max = HTTP1_HEAD_MAX, .is_secret = opt->is_secret},
        };
        c->call_count++;
        r = call_write_request(call, opt);
        if (r < 0) {
                call_destroy(call);
                return r == -EINVAL ? err_set(err, ERR_INVALID, "'%s %s' or one of its headers is not valid HTTP",
                                              opt->method, opt->target)
                                    : err_sys(err, r, "write the request");
        }
        call_set_timer(call, &call->timer, call->timeouts.connect_ms);
        call_set_timer(call, &call->total_timer, call->timeouts.total_ms);
        loop_post(c->loop, &call->task);
        *ret = call;
        return 0;
}

bool http_call_has_sent(const struct http_call *call)
{
        return call->has_sent;
}

void http_call_resume(struct http_call *call)
{
        if (!call_is_open(call))
                return;
        call->is_paused = false;
        if (call->sending == SENDING_WAITS)
                call->sending = SENDING_BYTES;
        loop_post(call->client->loop, &call->task);
}

const struct http1_head *http_call_head(const struct http_call *call)
{
        return call->has_head ? &call->head : NULL;
}
