#include "envd_client/envd_process.h"

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
#define HEADERS_MAX 6

struct envd_process {
        struct envd_process_options opt; /* callbacks and arg only */
        struct http_call *call;          /* owned */
        struct buf in;                   /* of an envelope that is not complete */
        struct buf bytes;                /* decoded output */
        bool is_stream;                  /* the answer is a stream of envelopes, else it is a refusal */
        bool has_end;                    /* of the command: `end` has it */
        bool is_over;                    /* the answer has ended while p was paused */
        bool is_paused;                  /* output is not wanted: `in` keeps what came */
        bool is_running, is_abandoned;   /* one of its callbacks runs; and has freed p, which goes after it */
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

        (void)snprintf(p->end.code, sizeof(p->end.code), "%s", code ? code : "unknown");
        if (code && strcmp(code, "deadline_exceeded") == 0)
                (void)err_set(&p->end.err, ERR_TIMEOUT, "timed out");
        else
                (void)err_set(&p->end.err, ERR_INVALID, "%s: %s", code ? code : "unknown", message ? message : "");
        p->has_end = true;
}

static uint64_t event_number(const json_t *obj, const char *name)
{
        json_int_t n = json_integer_value(json_object_get(obj, name));

        return n > 0 ? (uint64_t)n : 0;
}

static void process_started(const struct envd_process *p, const json_t *start)
{
        const struct envd_process_start s = {.pid = (uint32_t)event_number(start, "pid"),
                                             .offset = event_number(start, "offset"),
                                             .dropped = event_number(start, "dropped"),
                                             .next = event_number(start, "next"),
                                             .is_ended = json_is_true(json_object_get(start, "ended"))};

        if (p->opt.on_start)
                p->opt.on_start(&s, p->opt.arg);
}

/* The piece of output in an event; false: there is none. */
static bool process_piece(struct envd_process *p, const json_t *data, struct envd_piece *ret)
{
        static const char *const names[] = {[ENVD_STDOUT] = "stdout", [ENVD_STDERR] = "stderr"};

        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                const json_t *v = json_object_get(data, names[i]);

                if (!json_is_string(v))
                        continue;
                buf_reset(&p->bytes);
                if (base64_decode((struct str){json_string_value(v), json_string_length(v)}, &p->bytes) < 0 ||
                    !p->bytes.len)
                        return false;
                *ret = (struct envd_piece){.kind = (enum envd_output)i,
                                           .bytes = {(const char *)buf_at(&p->bytes), p->bytes.len},
                                           .offset = event_number(data, "offset"),
                                           .dropped = event_number(data, "dropped")};
                return true;
        }
        return false;
}

static void process_exited(struct envd_process *p, const json_t *end)
{
        const char *status = json_string_value(json_object_get(end, "status"));

        p->end.exit_code = (int)json_integer_value(json_object_get(end, "exitCode"));
        (void)snprintf(p->end.status, sizeof(p->end.status), "%s", status ? status : "unknown status");
        p->has_end = true;
}

/* One of them; a callback may have freed p afterwards. */
static void process_event(struct envd_process *p, const json_t *event)
{
        const json_t *end = json_object_get(event, "end"), *start = json_object_get(event, "start");
        struct envd_piece piece;

        if (end)
                process_exited(p, end);
        else if (start)
                process_started(p, start);
        else if (p->opt.on_output && process_piece(p, json_object_get(event, "data"), &piece))
                p->opt.on_output(&piece, p->opt.arg);
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

/* The envelopes that are complete.  0: all of them were dealt with, or p is paused; -ECANCELED: p is gone. */
static int process_take_messages(struct envd_process *p)
{
        struct str payload;
        uint8_t flags;
        size_t used;

        while (!p->is_paused) {
                int r = connect_envelope_parse(buf_at(&p->in), p->in.len, MESSAGE_MAX, &flags, &payload, &used);

                if (r == 0)
                        return 0;
                p->is_running = true;
                r = r < 0 ? r : process_message(p, flags, payload);
                p->is_running = false;
                if (p->is_abandoned) {
                        (void)envd_process_free(p);
                        return -ECANCELED;
                }
                if (r < 0) {
                        process_break(p, ERR_INTERNAL, "the daemon of the sandbox does not speak its protocol");
                        return -ECANCELED;
                }
                buf_consume(&p->in, used);
        }
        return 0;
}

static size_t process_on_data(struct http_call *call, struct str piece, void *arg)
{
        struct envd_process *p = arg;

        (void)call;
        if (!p->is_stream) {
                (void)buf_add(&p->in, piece.p, piece.n < REFUSAL_MAX - p->in.len ? piece.n : REFUSAL_MAX - p->in.len);
                return piece.n;
        }
        if (p->is_paused)
                return 0;
        if (buf_add(&p->in, piece.p, piece.n) < 0)
                process_break(p, ERR_INTERNAL, "the daemon of the sandbox sent a message that is too large");
        else
                (void)process_take_messages(p);
        return piece.n;
}

/* An answer that is no stream: {"code":401,"message":"..."}, or the same with a word as code. */
static void process_read_refusal(struct envd_process *p)
{
        json_t *body = json_loadb((const char *)buf_at(&p->in), p->in.len, 0, NULL);
        const char *message = json_string_value(json_object_get(body, "message"));
        const char *code = json_string_value(json_object_get(body, "code"));

        (void)snprintf(p->end.code, sizeof(p->end.code), "%s", code ? code : "");
        (void)err_set(&p->end.err, ERR_INVALID, "%s%s%s", code ? code : "", code ? ": " : "",
                      message ? message : "the daemon of the sandbox refused the command");
        p->has_end = true;
        json_decref(body);
}

/* The answer is over, and everything in it was looked at. */
static void process_close(struct envd_process *p, const struct err *why)
{
        const struct http1_head *head = http_call_head(p->call);

        p->end.http_status = head ? head->status : 0;
        if (why && !p->has_end)
                p->end.err = *why;
        else if (!why && !p->is_stream)
                process_read_refusal(p);
        else if (!p->has_end)
                (void)err_set(&p->end.err, ERR_UNAVAILABLE, "the stream ended before the command");
        process_finish(p);
}

static void process_on_end(struct http_call *call, const struct err *why, void *arg)
{
        struct envd_process *p = arg;

        (void)call;
        if (p->is_paused && !why)
                p->is_over = true; /* what is left in `in` comes first */
        else
                process_close(p, why);
}

void envd_process_pause(struct envd_process *p)
{
        p->is_paused = true;
}

void envd_process_resume(struct envd_process *p)
{
        if (!p->is_paused)
                return;
        p->is_paused = false;
        if (process_take_messages(p) < 0 || p->is_paused)
                return;
        if (p->is_over)
                process_close(p, NULL);
        else
                http_call_resume(p->call);
}

/* ---- the request ---- */

static json_t *process_start_message(const struct envd_process_options *opt)
{
        json_t *config = json_pack("{s:s, s:O}", "cmd", opt->cmd, "args", opt->args), *msg;

        if (config && opt->cwd && json_object_set_new(config, "cwd", json_string(opt->cwd)) < 0)
                goto fail;
        if (config && opt->env && json_object_set(config, "envs", opt->env) < 0)
                goto fail;
        msg = config ? json_pack("{s:o, s:b}", "process", config, "stdin", opt->has_stdin) : NULL;
        if (msg && opt->tag && json_object_set_new(msg, "tag", json_string(opt->tag)) < 0) {
                json_decref(msg);
                return NULL;
        }
        return msg;
fail:
        json_decref(config);
        return NULL;
}

static int process_request(const struct envd_process_options *opt, struct buf *out)
{
        json_t *msg = opt->cmd   ? process_start_message(opt)
                      : opt->tag ? json_pack("{s:{s:s}}", "process", "tag", opt->tag)
                                 : json_pack("{s:{s:I}}", "process", "pid", (json_int_t)opt->pid);
        AUTO_FREE char *text = msg ? json_dumps(msg, JSON_COMPACT) : NULL;

        json_decref(msg);
        return text ? connect_envelope_add(out, 0, text, strlen(text)) : -ENOMEM;
}

static int process_call(struct envd_process *p, struct http_client *envd, const struct envd_process_options *opt,
                        struct err *err)
{
        AUTO_BUF struct buf body = BUF_INIT(16u << 20);
        AUTO_FREE char *auth = opt->user ? envd_basic_auth(opt->user) : NULL;
        char timeout[32], from[32];
        struct http_header headers[HEADERS_MAX + 6] = {{"Keepalive-Ping-Interval", PING_S}};
        size_t n = 1;

        if ((opt->user && !auth) || process_request(opt, &body) < 0)
                return err_set(err, ERR_LIMIT, "out of memory, or a command that is too long");
        for (size_t i = 0; opt->headers && opt->headers[i].name && i < HEADERS_MAX; i++)
                headers[n++] = opt->headers[i];
        if (auth)
                headers[n++] = (struct http_header){"Authorization", auth};
        if (opt->token)
                headers[n++] = (struct http_header){"X-Access-Token", opt->token};
        if (opt->timeout_s) {
                (void)snprintf(timeout, sizeof(timeout), "%llu", opt->timeout_s * 1000ull);
                headers[n++] = (struct http_header){"Connect-Timeout-Ms", timeout};
        }
        if (opt->replays) {
                (void)snprintf(from, sizeof(from), "%llu", (unsigned long long)opt->replay_from);
                headers[n++] = (struct http_header){"Sandglass-Replay-From", from};
        }
        return http_call_start(
                envd,
                &(struct http_call_options){.method = "POST",
                                            .target = opt->cmd ? "/process.Process/Start" : "/process.Process/Connect",
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
        if (p->is_running) {
                p->is_abandoned = true;
                return NULL;
        }
        buf_done(&p->in);
        buf_done(&p->bytes);
        free(p);
        return NULL;
}
