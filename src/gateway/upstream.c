#include "gateway/upstream.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "gateway/tidy_tool.h"
#include "mcp/protocol/call.h"
#include "mcp/protocol/jsonrpc.h"
#include "mcp/tools/program.h"
#include "mcp/protocol/shorten.h"
#include "mcp/protocol/stream.h"
#include "mcp/protocol/tool.h"
#include "version.h"

#define TOOLS_MAX 2000u
#define PAGES_MAX 200u
#define MINUTE_MS 60000u

struct upstream_request {
        struct list node;
        struct upstream *upstream;
        json_int_t id;
        unsigned minutes;                                      /* since it was sent, for a call */
        unsigned away;                                         /* ... and since its client left */
        struct call *call;                                     /* NULL: a request of our own */
        void (*on_answer)(struct upstream *u, json_t *result); /* of our own; result NULL: an error came */
};

/* For what is found in the program's output: the program is still being read then, and must not be freed. */
static void fail_soon(struct upstream *u, const char *why)
{
        u->fault = why;
        loop_post(u->loop, &u->failing);
}

/* ---- sending ---- */

static int send_message(struct upstream *u, json_t *message)
{
        AUTO_FREE char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;
        int r = text && u->program ? program_write(u->program, str_of(text)) : -EPIPE;

        if (r == 0)
                r = program_write(u->program, STR("\n"));
        json_decref(message);
        return r;
}

static struct upstream_request *request_add(struct upstream *u, struct call *c,
                                            void (*on_answer)(struct upstream *, json_t *))
{
        struct upstream_request *rq = calloc(1, sizeof(*rq));

        if (!rq)
                return NULL;
        rq->upstream = u;
        rq->id = ++u->next_id;
        rq->call = c;
        rq->on_answer = on_answer;
        list_push_back(&u->requests, &rq->node);
        return rq;
}

static void request_free(struct upstream_request *rq)
{
        list_remove(&rq->node);
        free(rq);
}

static void ask(struct upstream *u, const char *method, json_t *params, void (*on_answer)(struct upstream *, json_t *))
{
        struct upstream_request *rq = request_add(u, NULL, on_answer);

        if (!rq) {
                json_decref(params);
                fail_soon(u, "out of memory");
                return;
        }
        (void)send_message(
                u, json_pack("{s:s,s:I,s:s,s:o}", "jsonrpc", "2.0", "id", rq->id, "method", method, "params", params));
}

/* ---- starting ---- */

static void ask_tools(struct upstream *u, const char *cursor);

/* The list changed while the server was asked for it. */
static void list_again(struct upstream *u)
{
        bool is_due = u->is_stale;

        u->is_stale = false;
        if (is_due && u->state == UPSTREAM_READY)
                ask_tools(u, NULL);
}

/* The server runs, and its list stays as it was. */
static void keep_tools(struct upstream *u, const char *why)
{
        log_warn("gateway.list_kept", "server=%s why=\"%s\"", u->name, why);
        json_decref(u->pending);
        u->pending = NULL;
        timer_clear(&u->timer);
        list_again(u);
}

/* All pages are there. */
static void take_tools(struct upstream *u)
{
        bool is_news = u->state != UPSTREAM_READY || !json_equal(u->tools, u->pending);

        json_decref(u->tools);
        u->tools = u->pending;
        u->pending = NULL;
        if (u->state != UPSTREAM_READY)
                u->ready_ms = clock_mono_ms();
        u->state = UPSTREAM_READY;
        timer_clear(&u->timer);
        if (is_news)
                u->on_change(u, true);
        list_again(u);
}

static void on_tools(struct upstream *u, json_t *result)
{
        json_t *tools = json_object_get(result, "tools"), *one;
        const char *cursor = json_string_value(json_object_get(result, "nextCursor"));
        size_t i;

        if (u->state == UPSTREAM_READY && !json_is_array(tools)) {
                keep_tools(u, "tools/list was refused");
                return;
        }
        if (result && !json_is_array(tools)) { /* an error is fine here: a server may have no tools */
                fail_soon(u, "the answer to tools/list has no tools");
                return;
        }
        json_array_foreach (tools, i, one) {
                json_t *tidy = json_object_size(u->pending) < TOOLS_MAX ? tidy_tool(one) : NULL;
                const char *name = json_string_value(json_object_get(tidy, "name"));

                if (name && !json_object_get(u->pending, name))
                        (void)json_object_set(u->pending, name, tidy);
                json_decref(tidy);
        }
        if (cursor && json_object_size(u->pending) < TOOLS_MAX && ++u->pages < PAGES_MAX)
                ask_tools(u, cursor);
        else
                take_tools(u);
}

static void ask_tools(struct upstream *u, const char *cursor)
{
        if (!u->pending) {
                u->pending = json_object();
                u->pages = 0;
                if (u->state == UPSTREAM_READY)
                        timer_set(u->loop, &u->timer, UPSTREAM_LIST_MS);
        }
        ask(u, "tools/list", json_pack("{s:s*}", "cursor", cursor), on_tools);
}

static void on_initialized(struct upstream *u, json_t *result)
{
        if (!json_is_string(json_object_get(result, "protocolVersion"))) {
                fail_soon(u, "the server refused initialize");
                return;
        }
        (void)send_message(u, jsonrpc_notification("notifications/initialized", NULL));
        json_decref(u->pending);
        u->pending = NULL;
        ask_tools(u, NULL);
}

/* ---- receiving ---- */

static void answer_call(struct upstream_request *rq, json_t *message)
{
        json_t *result = json_object_get(message, "result");
        struct call *c = rq->call;

        c->on_cancel = NULL;
        request_free(rq);
        if (json_is_object(result))
                call_result(c, json_incref(result));
        else
                call_pass_error(c, json_object_get(message, "error"));
}

static void take_answer(struct upstream *u, const struct jsonrpc_message *msg, json_t *value)
{
        LIST_EACH (at, &u->requests) {
                struct upstream_request *rq = LIST_ENTRY(at, struct upstream_request, node);
                void (*on_answer)(struct upstream *, json_t *) = rq->on_answer;

                if (!json_is_integer(msg->id) || json_integer_value(msg->id) != rq->id)
                        continue;
                if (rq->call) {
                        answer_call(rq, value);
                } else {
                        request_free(rq);
                        on_answer(u, json_object_get(value, "result"));
                }
                return;
        }
}

static json_t *member(const json_t *params, const char *name, json_type type)
{
        json_t *value = json_object_get(params, name);

        return value && (json_typeof(value) == type || (type == JSON_REAL && json_is_integer(value))) ? value : NULL;
}

static void pass_progress(struct call *c, const json_t *params)
{
        json_t *progress = member(params, "progress", JSON_REAL), *told;

        if (!progress || !c->progress_token || !c->stream || c->is_cancelled)
                return;
        told = json_pack("{s:O,s:O,s:O*,s:O*}", "progressToken", c->progress_token, "progress", progress, "total",
                         member(params, "total", JSON_REAL), "message", member(params, "message", JSON_STRING));
        if (told)
                stream_notify(c->stream, jsonrpc_notification("notifications/progress", told));
}

/* Progress of a call: our own id is its token. */
static void take_progress(struct upstream *u, const json_t *params)
{
        const json_t *token = json_object_get(params, "progressToken");

        LIST_EACH (at, &u->requests) {
                struct upstream_request *rq = LIST_ENTRY(at, struct upstream_request, node);

                if (rq->call && json_is_integer(token) && json_integer_value(token) == rq->id)
                        pass_progress(rq->call, params);
        }
}

static void take_request(struct upstream *u, const struct jsonrpc_message *msg)
{
        if (strcmp(msg->method, "ping") == 0)
                (void)send_message(u, jsonrpc_result(msg->id, json_object()));
        else if (strcmp(msg->method, "roots/list") == 0)
                (void)send_message(u, jsonrpc_result(msg->id, json_pack("{s:[]}", "roots")));
        else
                (void)send_message(u, jsonrpc_error(msg->id, JSONRPC_METHOD_NOT_FOUND,
                                                    "the gateway answers no requests of this kind"));
}

static void take_line(struct upstream *u, struct str line)
{
        struct jsonrpc_message msg;
        struct err err = {0};
        json_t *value = jsonrpc_parse(line, &err);

        if (!value || jsonrpc_decode(value, &msg, &err) < 0) { /* some servers print words to stdout */
                char shown[LOG_ESCAPED_MAX];

                log_debug("gateway.garbage", "server=%s line=\"%s\"", u->name, log_escape(line, shown));
        } else if (msg.kind == JSONRPC_RESPONSE) {
                take_answer(u, &msg, value);
        } else if (msg.kind == JSONRPC_REQUEST) {
                take_request(u, &msg);
        } else if (strcmp(msg.method, "notifications/progress") == 0) {
                take_progress(u, msg.params);
        } else if (strcmp(msg.method, "notifications/tools/list_changed") == 0) {
                u->is_stale = true;
                if (!u->pending)
                        list_again(u);
        }
        json_decref(value);
}

static void take_lines(struct upstream *u, struct str piece)
{
        if (buf_add(&u->line, piece.p, piece.n) < 0) {
                fail_soon(u, "the server sent a message that is too long");
                return;
        }
        for (;;) {
                const uint8_t *start = buf_at(&u->line), *end = u->line.len ? memchr(start, '\n', u->line.len) : NULL;
                AUTO_FREE char *line = NULL;
                size_t n;

                if (!end)
                        return;
                n = (size_t)(end - start);
                line = str_dup((struct str){(const char *)start, n});
                buf_consume(&u->line, n + 1);
                if (line && n)
                        take_line(u, (struct str){line, n});
                if (u->fault) /* the message was the last one */
                        return;
        }
}

static void note_words(struct upstream *u, struct str piece)
{
        size_t keep = sizeof(u->reason) - 1, have = strlen(u->reason);

        if (piece.n > keep)
                piece = (struct str){piece.p + piece.n - keep, keep};
        if (have + piece.n > keep) {
                size_t drop = have + piece.n - keep;

                memmove(u->reason, u->reason + drop, have - drop);
                have -= drop;
        }
        memcpy(u->reason + have, piece.p, piece.n);
        u->reason[have + piece.n] = '\0';
        for (char *p = u->reason + have; *p; p++) /* a text for a log and for JSON */
                if ((unsigned char)*p < ' ' || (unsigned char)*p > '~')
                        *p = ' ';
}

static void on_output(struct program *p, enum program_output which, struct str piece, void *arg)
{
        struct upstream *u = arg;

        (void)p;
        if (which == PROGRAM_STDERR)
                note_words(u, piece);
        else if (!u->fault)
                take_lines(u, piece);
}

/* ---- the end ---- */

static void answer_all(struct upstream *u, const char *why)
{
        while (!list_is_empty(&u->requests)) {
                struct upstream_request *rq = LIST_ENTRY(u->requests.next, struct upstream_request, node);
                struct call *c = rq->call;

                request_free(rq);
                if (c) {
                        c->on_cancel = NULL;
                        tool_failed(c, "the server %s %s", u->name, why);
                }
        }
}

static void stop(struct upstream *u, const char *why)
{
        timer_clear(&u->timer);
        loop_unpost(&u->failing);
        u->fault = NULL;
        u->program = program_free(u->program);
        buf_done(&u->line);
        json_decref(u->pending);
        u->pending = NULL;
        u->is_stale = false;
        timer_clear(&u->minute);
        answer_all(u, why);
}

static void fail(struct upstream *u, const char *why)
{
        char words[UPSTREAM_REASON_MAX];
        bool was_ready = u->state == UPSTREAM_READY;

        (void)snprintf(words, sizeof(words), "%s%s%.400s", why, u->reason[0] ? ": " : "", u->reason);
        stop(u, "has failed");
        (void)snprintf(u->reason, sizeof(u->reason), "%s", words);
        u->state = UPSTREAM_FAILED;
        log_warn("gateway.server_failed", "server=%s why=\"%s\"", u->name, u->reason);
        u->on_change(u, was_ready);
}

static void run_failing(struct task *t)
{
        struct upstream *u = CONTAINER_OF(t, struct upstream, failing);

        fail(u, u->fault);
}

static void on_end(struct program *p, void *arg)
{
        struct upstream *u = arg;
        char why[64];

        (void)snprintf(why, sizeof(why), "ended with exit code %d", program_exit_code(p));
        if (u->state == UPSTREAM_READY && clock_mono_ms() - u->ready_ms >= UPSTREAM_WELL_MS)
                u->starts = 0;
        if (u->state == UPSTREAM_READY && u->starts < UPSTREAM_STARTS) {
                stop(u, why);
                upstream_start(u);
                u->on_change(u, true);
        } else {
                fail(u, why);
        }
}

/* A server that runs did not say what its tools are: should it answer yet, nobody listens. */
static void listing_overdue(struct upstream *u)
{
        LIST_EACH (at, &u->requests) {
                struct upstream_request *rq = LIST_ENTRY(at, struct upstream_request, node);

                if (!rq->call)
                        request_free(rq);
        }
        u->is_stale = false; /* or it would be asked again, and again; the next change asks */
        keep_tools(u, "tools/list was not answered in time");
}

static void on_timer(struct timer *t)
{
        struct upstream *u = CONTAINER_OF(t, struct upstream, timer);

        if (u->state == UPSTREAM_READY)
                listing_overdue(u);
        else
                fail(u, "the server did not answer in time");
}

static void on_minute(struct timer *t)
{
        upstream_minute(CONTAINER_OF(t, struct upstream, minute));
}

void upstream_start(struct upstream *u)
{
        const char *argv[] = {"bash", "-c", u->launch.script, NULL};
        struct program_options opt = {.loop = u->loop,
                                      .argv = argv,
                                      .cwd = "/",
                                      .env = (const char *const *)u->launch.env,
                                      .keeps_stdin = true,
                                      .on_output = on_output,
                                      .on_end = on_end,
                                      .arg = u};
        struct err err = {0};

        u->starts++;
        u->state = UPSTREAM_STARTING;
        u->reason[0] = '\0';
        if (program_start(&opt, &u->program, &err) < 0) {
                fail(u, err.msg);
                return;
        }
        timer_set(u->loop, &u->timer, UPSTREAM_START_MS);
        ask(u, "initialize",
            json_pack("{s:s,s:{},s:{s:s,s:s}}", "protocolVersion", "2025-06-18", "capabilities", "clientInfo", "name",
                      "sandglass-gateway", "version", SANDGLASS_VERSION),
            on_initialized);
}

struct upstream *upstream_create(struct loop *loop, const char *name, struct launch *launch, upstream_changed on_change,
                                 void *arg)
{
        struct upstream *u = calloc(1, sizeof(*u));

        if (!u || !(u->name = strdup(name))) {
                free(u);
                launch_done(launch);
                return NULL;
        }
        u->loop = loop;
        u->launch = *launch;
        *launch = (struct launch){0};
        u->on_change = on_change;
        u->arg = arg;
        u->timer.on = on_timer;
        u->minute.on = on_minute;
        u->failing.run = run_failing;
        u->tools = json_object();
        list_init(&u->requests);
        buf_init(&u->line, UPSTREAM_LINE_BYTES_MAX);
        return u;
}

struct upstream *upstream_failed(struct loop *loop, const char *name, const char *reason)
{
        struct launch none = {0};
        struct upstream *u = upstream_create(loop, name, &none, NULL, NULL);

        if (u) {
                u->state = UPSTREAM_FAILED;
                (void)snprintf(u->reason, sizeof(u->reason), "%s", reason);
        }
        return u;
}

struct upstream *upstream_free(struct upstream *u)
{
        if (!u)
                return NULL;
        stop(u, "ends");
        list_remove(&u->node);
        launch_done(&u->launch);
        buf_done(&u->line);
        json_decref(u->tools);
        free(u->name);
        free(u);
        return NULL;
}

/* ---- calls ---- */

/* The server need not go on. */
static struct call *request_drop(struct upstream_request *rq)
{
        struct call *c = rq->call;

        (void)send_message(rq->upstream,
                           jsonrpc_notification("notifications/cancelled", json_pack("{s:I}", "requestId", rq->id)));
        request_free(rq);
        c->on_cancel = NULL;
        return c;
}

static void on_cancel(struct call *c)
{
        call_result(request_drop(c->user), json_object());
}

void upstream_minute(struct upstream *u)
{
        LIST_EACH (at, &u->requests) {
                struct upstream_request *rq = LIST_ENTRY(at, struct upstream_request, node);
                const struct stream *st = rq->call ? rq->call->stream : NULL;

                rq->away = st && stream_has_client(st) ? 0 : rq->away + 1;
                if (rq->call && (!st || rq->away >= UPSTREAM_AWAY_MINUTES))
                        tool_failed(request_drop(rq), "the call was ended: its client had left");
                else if (rq->call && ++rq->minutes >= UPSTREAM_CALL_MINUTES)
                        tool_failed(request_drop(rq), "the server %s did not answer for %u minutes", u->name,
                                    UPSTREAM_CALL_MINUTES);
        }
        if (!list_is_empty(&u->requests))
                timer_set(u->loop, &u->minute, MINUTE_MS);
}

void upstream_call(struct upstream *u, struct call *c, const char *tool, json_t *args)
{
        struct upstream_request *rq = u->state == UPSTREAM_READY ? request_add(u, c, NULL) : NULL;
        json_t *params;

        if (!rq && u->state == UPSTREAM_STARTING)
                tool_failed(c, "the server %s is starting: try again in a moment", u->name);
        else if (!rq)
                tool_failed(c, "the server %s is not running%s%s", u->name, u->reason[0] ? ": " : "", u->reason);
        if (!rq)
                return;
        c->user = rq;
        c->on_cancel = on_cancel;
        if (!timer_is_armed(&u->minute))
                timer_set(u->loop, &u->minute, MINUTE_MS);
        params = json_pack("{s:s,s:O,s:{s:I}}", "name", tool, "arguments", args, "_meta", "progressToken", rq->id);
        if (send_message(u, json_pack("{s:s,s:I,s:s,s:o}", "jsonrpc", "2.0", "id", rq->id, "method", "tools/call",
                                      "params", params)) < 0) {
                c->on_cancel = NULL;
                request_free(rq);
                tool_failed(c, "the server %s does not take the call", u->name);
        }
}
