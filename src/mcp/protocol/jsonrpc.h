/* jsonrpc.h - JSON-RPC 2.0 messages as MCP uses them: decoding, and the objects that are sent.  No I/O.
 *
 * A message is a request (method and id), a notification (method, no id) or a response (id, result or error).  Ids are texts or
 * whole numbers, as MCP has it: null is no id. */
#pragma once
#include <jansson.h>

#include "base/str.h"

struct err;

#define JSONRPC_PARSE_ERROR (-32700)
#define JSONRPC_INVALID_REQUEST (-32600)
#define JSONRPC_METHOD_NOT_FOUND (-32601)
#define JSONRPC_INVALID_PARAMS (-32602)
#define JSONRPC_INTERNAL_ERROR (-32603)
#define JSONRPC_RESOURCE_NOT_FOUND (-32002)
#define JSONRPC_HEADER_MISMATCH (-32020)
#define JSONRPC_UNKNOWN_VERSION (-32022)

#define JSONRPC_DEPTH_MAX 64
#define JSONRPC_VALUES_MAX 200000 /* of one message: a value in memory is many times as long as "0," */

enum jsonrpc_kind { JSONRPC_REQUEST, JSONRPC_NOTIFICATION, JSONRPC_RESPONSE };

struct jsonrpc_message {
        enum jsonrpc_kind kind;
        const char *method; /* borrowed from the object, as the next two; NULL for a response */
        json_t *id; /* a text or a whole number; NULL for a notification, and for a response to something unreadable */
        json_t *params; /* an object; NULL: there are none */
};

/* Text to one JSON value: an object or an array.  NULL with words in *err. */
json_t *jsonrpc_parse(struct str text, struct err *err);
/* 0, or negative with words; ret->id is set in any case where the object has a usable id. */
int jsonrpc_decode(json_t *value, struct jsonrpc_message *ret, struct err *err);

/* New references; NULL out of memory.  id NULL: null.  These take `result` and `params`, also on failure. */
json_t *jsonrpc_result(json_t *id, json_t *result);
json_t *jsonrpc_error(json_t *id, int code, const char *message);
json_t *jsonrpc_notification(const char *method, json_t *params);
