/* Any bytes as a message: never more than a refusal, and what is taken can be answered. */
#include "fuzz.h"
#include "base/err.h"
#include "mcp/protocol/jsonrpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        AUTO_FREE uint8_t *copy = fuzz_copy(data, size);
        struct err err = {0};
        struct jsonrpc_message msg;
        json_t *value = jsonrpc_parse((struct str){(const char *)copy, size}, &err), *answer;

        if (!value) {
                MUST(err.kind != ERR_NONE);
                return 0;
        }
        if (jsonrpc_decode(value, &msg, &err) < 0) {
                MUST(err.msg[0]);
        } else {
                MUST(msg.kind == JSONRPC_RESPONSE || msg.method);
                MUST((msg.kind == JSONRPC_REQUEST) == (msg.method && msg.id));
                MUST(!msg.params || json_is_object(msg.params));
        }
        answer = jsonrpc_error(msg.id, JSONRPC_INVALID_REQUEST, err.msg);
        MUST(answer);
        json_decref(answer);
        json_decref(value);
        return 0;
}
