#include "envd/rpc/rpc.h"

#include <assert.h>
#include <errno.h>

#include "envd/rpc/answer.h"
#include "envd/rpc/handler_context.h"
#include "envd/rpc/paths.h"

#define TO(s) (1u << (s))

static const unsigned answer_may[] = {
        [RPC_ANSWER_NONE] = TO(RPC_ANSWER_STREAMING) | TO(RPC_ANSWER_DONE),
        [RPC_ANSWER_STREAMING] = TO(RPC_ANSWER_DONE),
        [RPC_ANSWER_DONE] = 0,
};

static void rpc_answer_go(struct rpc *rpc, enum rpc_answer next) /* the only writer of rpc->answer */
{
        assert(answer_may[rpc->answer] & TO(next));
        rpc->answer = next;
        if (next == RPC_ANSWER_DONE)
                timer_clear(&rpc->deadline);
}

static void rpc_closed(struct http_request *rq, bool is_complete)
{
        struct rpc *rpc = rq->user;

        (void)is_complete;
        if (rpc->answer != RPC_ANSWER_DONE)
                rpc_answer_go(rpc, RPC_ANSWER_DONE);
        loop_unpost(&rpc->advance);
        if (rpc->on_gone)
                rpc->on_gone(rpc);
        buf_done(&rpc->pending);
        free(rpc->user_name);
        free(rpc);
}

static void rpc_drained(struct http_request *rq)
{
        struct rpc *rpc = rq->user;

        if (rpc->on_drain)
                rpc->on_drain(rpc);
}

static void rpc_deadline_passed(struct timer *t)
{
        struct rpc *rpc = CONTAINER_OF(t, struct rpc, deadline);

        if (rpc->on_deadline)
                rpc->on_deadline(rpc);
        else
                rpc_failf(rpc, CONNECT_DEADLINE_EXCEEDED, "context deadline exceeded");
}

/* Answering */

static char *rpc_error_json(const struct fault *f, bool is_end_frame)
{
        json_t *err = json_pack("{s:s, s:o?}", "code", connect_code_name(f->code), "message",
                                json_text(str_of(fault_text(f))));
        json_t *body = is_end_frame && err ? json_pack("{s:o}", "error", err) : err;
        char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;

        json_decref(body);
        return text;
}

bool rpc_is_legacy(const struct http_request *rq)
{
        return str_is(http1_value(rq->head, "User-Agent"), "connect-python");
}

static void rpc_headers(struct answer_headers *h, const struct http_request *rq)
{
        answer_headers_init(h, rq);
        if (rpc_is_legacy(rq))
                answer_headers_add(h, "X-E2B-Legacy-SDK", "true");
}

static void rpc_stream_head(struct http_request *rq)
{
        struct answer_headers h;

        rpc_headers(&h, rq);
        answer_headers_add(&h, "Cache-Control", "no-store");
        http_start(rq, 200, "application/connect+json", h.list, -1);
}

static int rpc_stream_write(struct http_request *rq, uint8_t flags, const char *text)
{
        AUTO_BUF struct buf b = BUF_INIT(SIZE_MAX / 4);

        if (!text || connect_envelope_add(&b, flags, text, strlen(text)) < 0)
                return -ENOMEM;
        return http_write(rq, buf_at(&b), b.len);
}

static void rpc_fail_stream(struct http_request *rq, bool is_open, const struct fault *f)
{
        AUTO_FREE char *text = rpc_error_json(f, true);

        if (!is_open)
                rpc_stream_head(rq);
        if (rpc_stream_write(rq, CONNECT_FLAG_END, text) < 0)
                http_abort(rq);
        else
                http_end(rq);
}

static void rpc_fail_unary(struct http_request *rq, const struct fault *f)
{
        AUTO_FREE char *text = rpc_error_json(f, false);

        answer_bytes(rq, connect_code_http(f->code), "application/json", text, text ? strlen(text) : 0);
}

void rpc_fail(struct rpc *rpc, const struct fault *f)
{
        bool is_open = rpc->answer == RPC_ANSWER_STREAMING;

        if (rpc->answer == RPC_ANSWER_DONE)
                return;
        rpc_answer_go(rpc, RPC_ANSWER_DONE);
        if (rpc->method->kind == RPC_UNARY)
                rpc_fail_unary(rpc->rq, f);
        else
                rpc_fail_stream(rpc->rq, is_open, f);
}

void rpc_failf(struct rpc *rpc, enum connect_code code, const char *fmt, ...)
{
        AUTO_FAULT struct fault f = {0};
        va_list ap;

        va_start(ap, fmt);
        (void)fault_vset(&f, code, fmt, ap);
        va_end(ap);
        rpc_fail(rpc, &f);
}

void rpc_refuse(struct http_request *rq, enum connect_code code, const char *fmt, ...)
{
        AUTO_FAULT struct fault f = {0};
        va_list ap;

        va_start(ap, fmt);
        (void)fault_vset(&f, code, fmt, ap);
        va_end(ap);
        if (str_starts(http1_value(rq->head, "Content-Type"), "application/connect+"))
                rpc_fail_stream(rq, false, &f);
        else
                rpc_fail_unary(rq, &f);
}

void rpc_reply_text(struct rpc *rpc, struct str text)
{
        struct answer_headers h;

        if (rpc->answer == RPC_ANSWER_DONE)
                return;
        rpc_answer_go(rpc, RPC_ANSWER_DONE);
        rpc_headers(&h, rpc->rq);
        http_reply(rpc->rq, 200, "application/json", h.list, text.p, text.n);
}

void rpc_reply(struct rpc *rpc, json_t *out)
{
        AUTO_FREE char *text = out ? json_dumps(out, JSON_COMPACT) : NULL;

        json_decref(out);
        if (text)
                rpc_reply_text(rpc, str_of(text));
        else
                rpc_failf(rpc, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
}

void rpc_open(struct rpc *rpc)
{
        if (rpc->answer != RPC_ANSWER_NONE)
                return;
        rpc_answer_go(rpc, RPC_ANSWER_STREAMING);
        rpc_stream_head(rpc->rq);
}

int rpc_send(struct rpc *rpc, json_t *msg)
{
        AUTO_FREE char *text = msg ? json_dumps(msg, JSON_COMPACT) : NULL;

        json_decref(msg);
        if (rpc->answer == RPC_ANSWER_DONE)
                return -EPIPE;
        return rpc_stream_write(rpc->rq, 0, text);
}

void rpc_end(struct rpc *rpc)
{
        if (rpc->answer == RPC_ANSWER_DONE)
                return;
        rpc_answer_go(rpc, RPC_ANSWER_DONE);
        if (rpc_stream_write(rpc->rq, CONNECT_FLAG_END, "{}") < 0)
                http_abort(rpc->rq);
        else
                http_end(rpc->rq);
}

/* Requests */

static void rpc_run_method(struct rpc *rpc, struct str text)
{
        json_error_t why;
        json_t *in;

        if (text.n == 0) {
                rpc_failf(rpc, CONNECT_INVALID_ARGUMENT, "zero-length payload is not a valid JSON object");
                return;
        }
        in = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES, &why);
        if (!in || !json_is_object(in)) {
                rpc_failf(rpc, CONNECT_INVALID_ARGUMENT, "unmarshal message: %s (at byte %d)",
                          in ? "an object expected" : why.text, in ? 0 : why.position);
                json_decref(in);
                return;
        }
        rpc->in = in;
        rpc->method->run(rpc); /* the rpc may be gone after it */
        json_decref(in);
}

static void rpc_on_unary_body(struct http_request *rq, struct str body)
{
        rpc_run_method(rq->user, body);
}

/* The next envelope's payload.  1; 0 more bytes are needed; -1 the call has failed. */
static int rpc_next_message(struct rpc *rpc, struct str bytes, struct str *ret, size_t *ret_used)
{
        uint8_t flags = 0;
        int r = connect_envelope_parse(bytes.p, bytes.n, RPC_MESSAGE_MAX, &flags, ret, ret_used);

        if (r == -E2BIG)
                rpc_failf(rpc, CONNECT_RESOURCE_EXHAUSTED, "message is larger than configured max %u", RPC_MESSAGE_MAX);
        else if (r < 0 || (r > 0 && flags & ~CONNECT_FLAG_COMPRESSED))
                rpc_failf(rpc, CONNECT_INVALID_ARGUMENT, "protocol error: invalid envelope flags");
        else if (r > 0 && flags)
                rpc_failf(rpc, CONNECT_INTERNAL, "protocol error: sent compressed message without compression support");
        else
                return r;
        return -1;
}

static void rpc_on_stream_body(struct http_request *rq, struct str body)
{
        struct rpc *rpc = rq->user;
        struct str message;
        size_t used = 0;
        int r;

        if (body.n == 0) {
                rpc_failf(rpc, CONNECT_UNIMPLEMENTED, "unary request has zero messages");
                return;
        }
        r = rpc_next_message(rpc, body, &message, &used);
        if (r < 0)
                return;
        if (r == 0)
                rpc_failf(rpc, CONNECT_INVALID_ARGUMENT, "protocol error: incomplete envelope: unexpected EOF");
        else if (used < body.n)
                rpc_failf(rpc, CONNECT_UNIMPLEMENTED, "unary request has multiple messages");
        else
                rpc_run_method(rpc, message);
}

/* Client streams: one message at a time; while the method works on one, reading from the client stops. */

static void rpc_client_stream_end(struct rpc *rpc)
{
        if (rpc->pending.len) {
                rpc_failf(rpc, CONNECT_INVALID_ARGUMENT, "protocol error: incomplete envelope: unexpected EOF");
                return;
        }
        rpc_open(rpc);
        (void)rpc_send(rpc, json_object());
        rpc_end(rpc);
}

static void rpc_client_stream_advance(struct rpc *rpc)
{
        AUTO_BUF struct buf message = BUF_INIT(RPC_MESSAGE_MAX);
        struct str payload;
        size_t used;
        int r;

        if (rpc->answer == RPC_ANSWER_DONE || rpc->is_waiting)
                return;
        r = rpc_next_message(rpc, (struct str){(const char *)buf_at(&rpc->pending), rpc->pending.len}, &payload, &used);
        if (r < 0)
                return;
        if (r == 0) {
                if (rpc->is_ended)
                        rpc_client_stream_end(rpc);
                else
                        http_resume_body(rpc->rq);
                return;
        }
        if (buf_add(&message, payload.p, payload.n) < 0) {
                rpc_failf(rpc, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
                return;
        }
        buf_consume(&rpc->pending, used);
        rpc->is_waiting = true;
        rpc_run_method(rpc, (struct str){(const char *)buf_at(&message), message.len});
}

static void rpc_advance_task(struct task *t)
{
        rpc_client_stream_advance(CONTAINER_OF(t, struct rpc, advance));
}

void rpc_next(struct rpc *rpc)
{
        rpc->is_waiting = false;
        loop_post(rpc->context->loop, &rpc->advance);
}

static size_t rpc_on_client_data(struct http_request *rq, struct str piece)
{
        struct rpc *rpc = rq->user;

        if (rpc->answer == RPC_ANSWER_DONE)
                return piece.n;
        if (rpc->is_waiting)
                return 0; /* http_resume_body() follows */
        if (buf_add(&rpc->pending, piece.p, piece.n) < 0) {
                rpc_failf(rpc, CONNECT_RESOURCE_EXHAUSTED, "message is larger than configured max %u", RPC_MESSAGE_MAX);
                return piece.n;
        }
        loop_post(rpc->context->loop, &rpc->advance);
        return piece.n;
}

static void rpc_on_client_end(struct http_request *rq)
{
        struct rpc *rpc = rq->user;

        rpc->is_ended = true;
        loop_post(rpc->context->loop, &rpc->advance);
}

/* Check the head of the request.  -1: *f says what is wrong. */
static int rpc_check_head(struct rpc *rpc, struct fault *f)
{
        const struct http1_head *head = rpc->rq->head;
        struct str version = http1_value(head, "Connect-Protocol-Version"),
                   timeout = http1_value(head, "Connect-Timeout-Ms"),
                   encoding = http1_value(head, rpc->method->kind == RPC_UNARY ? "Content-Encoding"
                                                                               : "Connect-Content-Encoding");

        if (version.n && !str_is(version, "1"))
                return fault_set(f, CONNECT_INVALID_ARGUMENT, "connect-protocol-version must be \"1\": got \"%.*s\"",
                                 STR_ARG(version));
        if (encoding.n && !str_is(encoding, "identity"))
                return fault_set(f, CONNECT_UNIMPLEMENTED,
                                 "unknown compression \"%.*s\": supported encodings are identity", STR_ARG(encoding));
        if (!timeout.n)
                return 0;
        if (timeout.n > RPC_TIMEOUT_DIGITS_MAX || parse_u64(timeout, 0, UINT64_MAX, &rpc->timeout_ms) < 0)
                return fault_set(f, CONNECT_INVALID_ARGUMENT, "parse timeout: \"%.*s\" is not a number of milliseconds",
                                 STR_ARG(timeout));
        rpc->has_timeout = true;
        return 0;
}

static bool rpc_check_content_type(struct http_request *rq, const struct rpc_method *method)
{
        const char *want = method->kind == RPC_UNARY ? "application/json" : "application/connect+json";
        struct str rest = http1_value(rq->head, "Content-Type"), type;
        struct answer_headers h;

        (void)str_cut(&rest, ';', &type);
        if (str_iis(str_trim(type), want))
                return true;
        answer_headers_init(&h, rq);
        answer_headers_add(&h, "Accept-Post", want);
        http_reply(rq, 415, NULL, h.list, NULL, 0);
        return false;
}

static void rpc_start_reading(struct rpc *rpc)
{
        switch (rpc->method->kind) {
        case RPC_UNARY: http_read_body(rpc->rq, RPC_MESSAGE_MAX, rpc_on_unary_body); break;
        case RPC_SERVER_STREAM:
                http_read_body(rpc->rq, RPC_MESSAGE_MAX + CONNECT_ENVELOPE_HEAD, rpc_on_stream_body);
                break;
        case RPC_CLIENT_STREAM: http_stream_body(rpc->rq, rpc_on_client_data, rpc_on_client_end); break;
        }
}

void rpc_serve(struct handler_context *context, void *service, struct http_request *rq, const struct rpc_method *method,
               char *user_name)
{
        AUTO_FREE char *name = user_name;
        AUTO_FAULT struct fault f = {0};
        struct rpc *rpc;

        if (!str_is(rq->head->method, "POST")) {
                answer_bad_method(rq, "POST");
                return;
        }
        if (!rpc_check_content_type(rq, method))
                return;
        rpc = calloc(1, sizeof(*rpc));
        if (!rpc) {
                answer_error(rq, 503, "out of memory");
                return;
        }
        *rpc = (struct rpc){
                .context = context, .service = service, .rq = rq, .method = method, .user_name = TAKE_PTR(name)};
        rpc->deadline.on = rpc_deadline_passed;
        rpc->advance.run = rpc_advance_task;
        buf_init(&rpc->pending, RPC_MESSAGE_MAX + CONNECT_ENVELOPE_HEAD);
        rq->user = rpc;
        rq->on_close = rpc_closed;
        rq->on_drain = rpc_drained;
        if (rpc_check_head(rpc, &f) < 0) {
                rpc_fail(rpc, &f);
                return;
        }
        if (rpc->has_timeout)
                timer_set(context->loop, &rpc->deadline, rpc->timeout_ms);
        rpc_start_reading(rpc);
}

int rpc_user(const struct rpc *rpc, struct user *ret, struct fault *f)
{
        const char *name = rpc->user_name ? rpc->user_name : rpc->context->settings.default_user;

        if (user_lookup(name, ret) == 0)
                return 0;
        return fault_set(f, CONNECT_UNAUTHENTICATED, "invalid %s: '%s'", rpc->user_name ? "username" : "default user",
                         name);
}

int rpc_user_path(const struct rpc *rpc, const char *path, struct user *ret, char **ret_path, struct fault *f)
{
        if (rpc_user(rpc, ret, f) < 0)
                return -1;
        if (path_expand(path, ret, rpc->context->settings.default_workdir, ret_path, f) < 0) {
                user_done(ret);
                return -1;
        }
        return 0;
}
