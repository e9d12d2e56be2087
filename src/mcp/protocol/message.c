#include "mcp/protocol/message.h"

#include <string.h>

#include "base/err.h"
#include "mcp/protocol/call.h"
#include "mcp/protocol/jsonrpc.h"
#include "mcp/protocol/mcp.h"
#include "mcp/protocol/method.h"
#include "mcp/protocol/session.h"
#include "mcp/protocol/stream.h"
#include "mcp/protocol/versions.h"

static void begin_call(struct session *s, struct stream *st, const struct jsonrpc_message *msg)
{
        struct call *c;

        if (!s->is_shared && call_find(s, msg->id)) {
                stream_expect(st);
                stream_answer(st,
                              jsonrpc_error(msg->id, JSONRPC_INVALID_REQUEST, "a request with this id is under way"));
                return;
        }
        c = s->call_count < MCP_CALLS_MAX ? call_begin(s, st, msg->id, msg->params) : NULL;
        if (!c) {
                stream_expect(st);
                stream_answer(st, jsonrpc_error(msg->id, JSONRPC_INTERNAL_ERROR,
                                                "too many requests are under way in this session"));
                return;
        }
        method_run(c, msg->method);
}

static void take_one(struct session *s, struct stream *st, json_t *value)
{
        struct jsonrpc_message msg;
        struct err err = {0};

        if (jsonrpc_decode(value, &msg, &err) < 0) {
                stream_expect(st);
                stream_answer(st, jsonrpc_error(msg.id, JSONRPC_INVALID_REQUEST, err.msg));
                return;
        }
        switch (msg.kind) {
        case JSONRPC_REQUEST: begin_call(s, st, &msg); break;
        case JSONRPC_NOTIFICATION: method_notified(s, msg.method, msg.params); break;
        case JSONRPC_RESPONSE: /* this server asks clients nothing */ break;
        }
}

_Static_assert(MCP_BATCH_MAX == 256, "as the refusal says");

const char *message_batch_refusal(const json_t *value, const char *version)
{
        size_t count = json_array_size(value);

        if (!json_is_array(value))
                return NULL;
        if (count == 0)
                return "the batch is empty";
        if (!protocol_has_batches(version))
                return "this revision has no batches";
        return count > MCP_BATCH_MAX ? "the batch has too many messages: at most 256" : NULL;
}

void message_take(struct session *s, struct stream *st, json_t *value)
{
        json_t *one;
        size_t i;

        if (!json_is_array(value)) {
                take_one(s, st, value);
                return;
        }
        json_array_foreach (value, i, one) {
                take_one(s, st, one);
        }
}

bool message_is_initialize(json_t *value, struct jsonrpc_message *ret)
{
        struct err err = {0};

        return json_is_object(value) && jsonrpc_decode(value, ret, &err) == 0 && ret->kind == JSONRPC_REQUEST &&
               strcmp(ret->method, "initialize") == 0;
}

const char *message_envelope(const json_t *params, const char *key)
{
        const json_t *meta = json_object_get(params, "_meta");

        return json_string_value(json_object_get(meta, key));
}
