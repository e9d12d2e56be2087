#include "mcp/protocol/call.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "mcp/protocol/jsonrpc.h"
#include "mcp/protocol/mcp.h"
#include "mcp/protocol/session.h"
#include "mcp/protocol/stream.h"
#include "version.h"

struct call *call_begin(struct session *s, struct stream *st, json_t *id, json_t *params)
{
        struct call *c = calloc(1, sizeof(*c));
        json_t *token = json_object_get(json_object_get(params, "_meta"), "progressToken");

        if (!c)
                return NULL;
        c->mcp = s->mcp;
        c->session = s;
        c->stream = st;
        c->id = json_incref(id);
        c->params = params ? json_incref(params) : json_object();
        c->begun_us = clock_mono_us();
        if (json_is_string(token) || json_is_integer(token))
                c->progress_token = json_incref(token);
        list_push_back(&s->calls, &c->node);
        s->call_count++;
        stream_expect(st);
        return c;
}

static void call_finish(struct call *c, json_t *message)
{
        struct stream *st = c->stream;

        if (c->is_cancelled) { /* the client waits for nothing */
                json_decref(message);
                message = NULL;
        }
        list_remove(&c->node);
        c->session->call_count--;
        session_touch(c->session);
        json_decref(c->id);
        json_decref(c->params);
        json_decref(c->progress_token);
        free(c);
        if (st)
                stream_answer(st, message);
        else
                json_decref(message);
}

/* What results have in addition where there are no sessions.  Nothing may be kept: files and ports change at any time. */
static void complete_result(const struct call *c, json_t *result)
{
        json_t *info = json_pack("{s:{s:s,s:s}}", "io.modelcontextprotocol/serverInfo", "name", c->mcp->backend->name,
                                 "version", SANDGLASS_VERSION);

        (void)json_object_set_new(result, "resultType", json_string("complete"));
        (void)json_object_set_new(result, "_meta", info);
        if (c->is_cacheable) {
                (void)json_object_set_new(result, "ttlMs", json_integer(0));
                (void)json_object_set_new(result, "cacheScope", json_string("private"));
        }
}

void call_result(struct call *c, json_t *result)
{
        json_t *message;

        if (result && c->session->is_stateless)
                complete_result(c, result);
        message = jsonrpc_result(c->id, result);
        call_finish(c, message ? message : jsonrpc_error(c->id, JSONRPC_INTERNAL_ERROR, "out of memory"));
}

void call_error(struct call *c, int code, const char *fmt, ...)
{
        char text[512];
        va_list ap;

        va_start(ap, fmt);
        (void)vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        call_finish(c, jsonrpc_error(c->id, code, text));
}

void call_pass_error(struct call *c, const json_t *error)
{
        const char *words = json_string_value(json_object_get(error, "message"));
        json_t *code = json_object_get(error, "code"), *data = json_object_get(error, "data"),
               *message = jsonrpc_error(c->id, JSONRPC_INTERNAL_ERROR,
                                        words ? words : "the server answered with an error"),
               *passed = json_object_get(message, "error");

        if (json_is_integer(code))
                (void)json_object_set(passed, "code", code);
        if (data)
                (void)json_object_set(passed, "data", data);
        call_finish(c, message);
}

void call_progress(struct call *c, double add, const char *message)
{
        json_t *params;

        if (!c->progress_token || !c->stream || c->is_cancelled)
                return;
        c->progress += add;
        params = json_pack("{s:O,s:f,s:s*}", "progressToken", c->progress_token, "progress", c->progress, "message",
                           message);
        if (params)
                stream_notify(c->stream, jsonrpc_notification("notifications/progress", params));
}

void call_cancel(struct call *c)
{
        void (*on_cancel)(struct call *) = c->on_cancel;

        c->is_cancelled = true;
        c->on_cancel = NULL;
        if (on_cancel)
                on_cancel(c);
}

struct call *call_find(struct session *s, const json_t *id)
{
        LIST_EACH (at, &s->calls) {
                struct call *c = LIST_ENTRY(at, struct call, node);

                if (json_equal(c->id, id))
                        return c;
        }
        return NULL;
}
