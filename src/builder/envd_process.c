#include "builder/envd_process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/buf.h"
#include "http/client.h"
#include "wire/base64.h"
#include "wire/connect.h"

#define MESSAGE_MAX (1u << 20) /* an event of envd has at most 64 KiB of output */
#define REFUSAL_MAX 4096u
#define PING_S "30"

struct envd_process {
        struct envd_process_options opt; /* callbacks and arg only */
        struct http_call *call;          /* owned */
        struct buf in;                   /* of an envelope that is not complete */
        struct buf bytes;                /* decoded output */
        bool is_stream;                  /* the answer is a stream of envelopes, else it is a refusal */
        bool has_end;                    /* of the command: `end` has it */
        struct envd_process_end end;
};

char *envd_basic_auth(const char *user)
{
        AUTO_BUF struct buf plain = BUF_INIT(64u << 10), out = BUF_INIT(128u << 10);
        const char *text;

        if (buf_addf(&plain, "%s:", user) < 0 || buf_addc(&out, "Basic ") < 0 ||
            base64_add(&out, buf_at(&plain), plain.len, true) < 0)
                return NULL;
        text = buf_cstr(&out);
        return text ? strdup(text) : NULL;
}

/* ---- what envd says ---- */

static void process_refused(struct envd_process *p, const json_t *error)
{
        const char *code = json_string_value(json_object_get(error, "code"));
        const char *message = json_string_value(json_object_get(error, "message"));

        if (code && strcmp(code, "deadline_exceeded") == 0)
                (void)err_set(&p->end.err, ERR_TIMEOUT, "timed out");
        else
                (void)err_set(&p->end.err, ERR_INVALID, "%s: %s", code ? code : "unknown", message ? message : "");
        p->has_end = true;
}

static void process_output(struct envd_process *p, const json_t *data)
{
        static const char *const names[] = {[ENVD_STDOUT] = "stdout", [ENVD_STDERR] = "stderr"};

        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                const json_t *v = json_object_get(data, names[i]);

                if (!json_is_string(v))
                        continue;
                buf_reset(&p->bytes);
                if (base64_decode((struct str){json_string_value(v), json_string_length(v)}, &p->bytes) == 0 &&
                    p->bytes.len && p->opt.on_output)
                        p->opt.on_output((enum envd_output)i,
                                         (struct str){(const char *)buf_at(&p->bytes), p->bytes.len}, p->opt.arg);
        }
}

static void process_exited(struct envd_process *p, const json_t *end)
{
        const char *status = json_string_value(json_object_get(end, "status"));

        p->end.exit_code = (int)json_integer_value(json_object_get(end, "exitCode"));
        (void)snprintf(p->end.status, sizeof(p->end.status), "%s", status ? status : "unknown status");
        p->has_end = true;
}

static void process_event(struct envd_process *p, const json_t *event)
{
        const json_t *v;

        if (json_object_get(event, "start") && p->opt.on_start)
                p->opt.on_start(p->opt.arg);
        v = json_object_get(event, "data");
        if (v)
                process_output(p, v);
        v = json_object_get(event, "end");
        if (v)
                process_exited(p, v);
}

static int process_message(struct envd_process *p, uint8_t flags, struct str payload)
{
        json_t *msg = json_loadb(payload.p, payload.n, JSON_REJECT_DUPLICATES, NULL);
        const json_t *error = json_object_get(msg, "error");

        if (!msg)
                return -EPROTO;
        if (!(flags & CONNECT_FLAG_END))
                process_event(p, json_object_get(msg, "event"));
        else if (error && !p->has_end)
                process_refused(p, error);
        json_decref(msg);
        return 0;
}

/* ---- the exchange ---- */

static void process_finish(struct envd_process *p)
{
        p->call = http_call_free(p->call);
        p->opt.on_end(&p->end, p->opt.arg); /* p may be gone */
}

static void process_break(struct envd_process *p, enum err_kind kind, const char *why)
{
        (void)err_set(&p->end.err, kind, "%s", why);
        process_finish(p);
}

static void process_on_head(struct http_call *call, void *arg)
{
        struct envd_process *p = arg;
        const struct http1_head *head = http_call_head(call);

        p->is_stream = head->status == 200 && str_is(http1_value(head, "Content-Type"), "application/connect+json");
}

static size_t process_on_data(struct http_call *call, struct str piece, void *arg)
{
        struct envd_process *p = arg;
        size_t used;

        if (!p->is_stream) {
                (void)buf_add(&p->in, piece.p, piece.n < REFUSAL_MAX - p->in.len ? piece.n : REFUSAL_MAX - p->in.len);
                return piece.n;
        }
        if (buf_add(&p->in, piece.p, piece.n) < 0) {
                process_break(p, ERR_INTERNAL, "the daemon of the sandbox sent a message that is too large");
                return piece.n;
        }
        for (;;) {
                uint8_t flags;
                struct str payload;
                int r = connect_envelope_parse(buf_at(&p->in), p->in.len, MESSAGE_MAX, &flags, &payload, &used);

                if (r == 0)
                        return piece.n;
                if (r < 0 || process_message(p, flags, payload) < 0) {
                        process_break(p, ERR_INTERNAL, "the daemon of the sandbox does not speak its protocol");
                        return piece.n;
                }
                if (p->call != call)
                        return piece.n; /* a callback has ended it */
                buf_consume(&p->in, used);
        }
}

/* An answer that is no stream: {"code":401,"message":"..."}, or the same with a word as code. */
static void process_read_refusal(struct envd_process *p)
{
        json_t *body = json_loadb((const char *)buf_at(&p->in), p->in.len, 0, NULL);
        const char *message = json_string_value(json_object_get(body, "message"));
        const char *code = json_string_value(json_object_get(body, "code"));

        (void)err_set(&p->end.err, ERR_INVALID, "%s%s%s", code ? code : "", code ? ": " : "",
                      message ? message : "the daemon of the sandbox refused the command");
        p->has_end = true;
        json_decref(body);
}

static void process_on_end(struct http_call *call, const struct err *why, void *arg)
{
        struct envd_process *p = arg;

        (void)call;
        if (why && !p->has_end)
                p->end.err = *why;
        else if (!why && !p->is_stream)
                process_read_refusal(p);
        else if (!p->has_end)
                (void)err_set(&p->end.err, ERR_UNAVAILABLE, "the stream ended before the command");
        process_finish(p);
}

/* ---- the request ---- */

static int process_request(const struct envd_process_options *opt, struct buf *out)
{
        json_t *config = json_pack("{s:s, s:O}", "cmd", opt->cmd, "args", opt->args), *msg;
        char *text;
        int r = -ENOMEM;

        if (config && opt->cwd && json_object_set_new(config, "cwd", json_string(opt->cwd)) < 0)
                goto fail;
        if (config && opt->env && json_object_set(config, "envs", opt->env) < 0)
                goto fail;
        msg = config ? json_pack("{s:o, s:b}", "process", config, "stdin", 0) : NULL;
        text = msg ? json_dumps(msg, JSON_COMPACT) : NULL;
        if (text)
                r = connect_envelope_add(out, 0, text, strlen(text));
        free(text);
        json_decref(msg);
        return r;
fail:
        json_decref(config);
        return r;
}

static int process_call(struct envd_process *p, struct http_client *envd, const struct envd_process_options *opt,
                        struct err *err)
{
        AUTO_BUF struct buf body = BUF_INIT(16u << 20);
        AUTO_FREE char *auth = envd_basic_auth(opt->user);
        char timeout[32];
        struct http_header headers[6] = {{"Authorization", auth}, {"Keepalive-Ping-Interval", PING_S}};
        size_t n = 2;

        if (!auth || process_request(opt, &body) < 0)
                return err_set(err, ERR_LIMIT, "out of memory, or a command that is too long");
        if (opt->token)
                headers[n++] = (struct http_header){"X-Access-Token", opt->token};
        if (opt->timeout_s) {
                (void)snprintf(timeout, sizeof(timeout), "%llu", opt->timeout_s * 1000ull);
                headers[n++] = (struct http_header){"Connect-Timeout-Ms", timeout};
        }
        return http_call_start(envd,
                               &(struct http_call_options){.method = "POST",
                                                           .target = "/process.Process/Start",
                                                           .headers = headers,
                                                           .content_type = "application/connect+json",
                                                           .body = {(const char *)buf_at(&body), body.len},
                                                           .on_head = process_on_head,
                                                           .on_data = process_on_data,
                                                           .on_end = process_on_end,
                                                           .arg = p},
                               &p->call, err);
}

int envd_process_start(struct http_client *envd, const struct envd_process_options *opt, struct envd_process **ret,
                       struct err *err)
{
        struct envd_process *p = calloc(1, sizeof(*p));
        int r;

        if (!p)
                return err_set(err, ERR_LIMIT, "out of memory");
        p->opt = (struct envd_process_options){
                .on_start = opt->on_start, .on_output = opt->on_output, .on_end = opt->on_end, .arg = opt->arg};
        buf_init(&p->in, MESSAGE_MAX + CONNECT_ENVELOPE_HEAD + (128u << 10));
        buf_init(&p->bytes, MESSAGE_MAX);
        r = process_call(p, envd, opt, err);
        if (r < 0)
                (void)envd_process_free(p);
        else
                *ret = p;
        return r;
}

struct envd_process *envd_process_free(struct envd_process *p)
{
        if (!p)
                return NULL;
        p->call = http_call_free(p->call);
        buf_done(&p->in);
        buf_done(&p->bytes);
        free(p);
        return NULL;
}
