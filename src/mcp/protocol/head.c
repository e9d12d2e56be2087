#include "mcp/protocol/head.h"

#include "base/buf.h"
#include "mcp/protocol/jsonrpc.h"
#include "mcp/protocol/message.h"
#include "mcp/protocol/versions.h"
#include "wire/base64.h"
#include "wire/http1.h"

#define NAME_BYTES_MAX (64u << 10)

bool head_is_stateless(const struct http1_head *head, const json_t *value)
{
        const char *version = message_envelope(json_object_get(value, "params"), META_VERSION);

        return str_is(http1_value(head, "mcp-protocol-version"), PROTOCOL_STATELESS) ||
               (version && strcmp(version, PROTOCOL_STATELESS) == 0);
}

/* The param of the message that Mcp-Name repeats; NULL: the method has none. */
static const json_t *name_in(const struct jsonrpc_message *msg)
{
        static const struct {
                const char *method, *param;
        } named[] = {{"tools/call", "name"}, {"prompts/get", "name"}, {"resources/read", "uri"}};

        for (size_t i = 0; i < ARRAY_LEN(named); i++)
                if (strcmp(msg->method, named[i].method) == 0)
                        return json_object_get(msg->params, named[i].param);
        return NULL;
}

/* A value that a field of a head cannot hold as it is comes as "=?base64?...?=". */
static bool is_same_name(struct str value, const json_t *name)
{
        struct str text = {json_string_value(name), json_string_length(name)};
        AUTO_BUF struct buf plain = BUF_INIT(NAME_BYTES_MAX);

        if (!str_starts(value, "=?base64?") || !str_ends(value, "?=") || value.n < 11)
                return str_eq(value, text);
        return base64_decode((struct str){value.p + 9, value.n - 11}, &plain) == 0 &&
               str_eq((struct str){(const char *)buf_at(&plain), plain.len}, text);
}

static const char *method_mismatch(const struct http1_head *head, const struct jsonrpc_message *msg)
{
        struct str method = http1_value(head, "mcp-method"), name = http1_value(head, "mcp-name");
        const json_t *wanted = name_in(msg);

        if (!method.n && msg->kind == JSONRPC_REQUEST)
                return "Mcp-Method is missing: it is the method of the message";
        if (method.n && !str_is(method, msg->method))
                return "Mcp-Method is not the method of the message";
        if (!json_is_string(wanted))
                return NULL;
        if (!name.n)
                return "Mcp-Name is missing: it is the name or the uri in the message";
        return is_same_name(name, wanted) ? NULL : "Mcp-Name is not the name in the message";
}

const char *head_mismatch(const struct http1_head *head, const struct jsonrpc_message *msg)
{
        const char *version = message_envelope(msg->params, META_VERSION);

        if (!str_is(http1_value(head, "mcp-protocol-version"), PROTOCOL_STATELESS))
                return "MCP-Protocol-Version must be " PROTOCOL_STATELESS ", as in the message";
        if (version && strcmp(version, PROTOCOL_STATELESS) != 0)
                return "the message is of another revision than MCP-Protocol-Version says";
        return msg->method ? method_mismatch(head, msg) : NULL;
}
