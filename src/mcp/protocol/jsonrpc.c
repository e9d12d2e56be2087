#include "mcp/protocol/jsonrpc.h"

#include <errno.h>
#include <stdint.h>

#include "base/err.h"

/* jansson takes texts of any depth up to its own limit of 2048, and any number of values.  What is nested deeper than any message, or
 * has more values, is refused first. */
static int check_size(struct str text, struct err *err)
{
        size_t depth = 0, values = 0;
        bool in_string = false;

        for (size_t i = 0; i < text.n; i++) {
                char c = text.p[i];

                if (in_string) {
                        if (c == '\\')
                                i++;
                        else if (c == '"')
                                in_string = false;
                } else if (c == '"') {
                        in_string = true;
                } else if (c == '{' || c == '[') {
                        values++;
                        if (++depth > JSONRPC_DEPTH_MAX)
                                return err_set(err, ERR_INVALID, "the message is nested more than %d deep",
                                               JSONRPC_DEPTH_MAX);
                } else if ((c == '}' || c == ']') && depth > 0) {
                        depth--;
                } else if (c == ',') {
                        values++;
                }
                if (values > JSONRPC_VALUES_MAX)
                        return err_set(err, ERR_INVALID, "the message has more than %d values", JSONRPC_VALUES_MAX);
        }
        return 0;
}

json_t *jsonrpc_parse(struct str text, struct err *err)
{
        json_error_t why;
        json_t *value;

        if (check_size(text, err) < 0)
                return NULL;
        value = json_loadb(text.p ? text.p : "", text.n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
        if (!value)
                (void)err_set(err, ERR_INVALID, "the message is no JSON: %s, at byte %d", why.text, why.position);
        return value;
}

static bool is_id(const json_t *id)
{
        return json_is_string(id) || json_is_integer(id);
}

static int decode_response(json_t *value, struct jsonrpc_message *ret, struct err *err)
{
        bool has_result = json_object_get(value, "result") != NULL, has_error = json_object_get(value, "error") != NULL;

        if (has_result == has_error)
                return err_set(err, ERR_INVALID, "a message has a method, a result or an error, and only one of them");
        ret->kind = JSONRPC_RESPONSE;
        return 0;
}

int jsonrpc_decode(json_t *value, struct jsonrpc_message *ret, struct err *err)
{
        json_t *id = json_object_get(value, "id"), *method = json_object_get(value, "method");
        json_t *params = json_object_get(value, "params");
        const char *version = json_string_value(json_object_get(value, "jsonrpc"));

        *ret = (struct jsonrpc_message){.id = is_id(id) ? id : NULL};
        if (!json_is_object(value))
                return err_set(err, ERR_INVALID, "a message is an object");
        if (!version || strcmp(version, "2.0") != 0)
                return err_set(err, ERR_INVALID, "jsonrpc must be \"2.0\"");
        if (!method) {
                if (id && !is_id(id) && !json_is_null(id))
                        return err_set(err, ERR_INVALID, "id must be a text or a whole number");
                return decode_response(value, ret, err);
        }
        if (!json_is_string(method) || strlen(json_string_value(method)) != json_string_length(method))
                return err_set(err, ERR_INVALID, "method must be a text");
        if (id && !is_id(id))
                return err_set(err, ERR_INVALID, "id must be a text or a whole number");
        if (params && !json_is_object(params))
                return err_set(err, ERR_INVALID, "params must be an object");
        ret->kind = id ? JSONRPC_REQUEST : JSONRPC_NOTIFICATION;
        ret->method = json_string_value(method);
        ret->params = params;
        return 0;
}

json_t *jsonrpc_result(json_t *id, json_t *result)
{
        if (!result)
                return NULL;
        return json_pack("{s:s,s:O,s:o}", "jsonrpc", "2.0", "id", id, "result", result);
}

json_t *jsonrpc_error(json_t *id, int code, const char *message)
{
        AUTO_FREE char *clean = NULL;
        json_t *text = json_string(message);

        if (!text) { /* a message about bytes that are no UTF-8 may hold some of them */
                clean = str_dup(str_of(message));
                for (char *c = clean; c && *c; c++)
                        *c = (unsigned char)*c < 0x80 ? *c : '?';
                text = json_string(clean ? clean : "error");
        }
        if (!id)
                return json_pack("{s:s,s:n,s:{s:i,s:o}}", "jsonrpc", "2.0", "id", "error", "code", code, "message",
                                 text);
        return json_pack("{s:s,s:O,s:{s:i,s:o}}", "jsonrpc", "2.0", "id", id, "error", "code", code, "message", text);
}

json_t *jsonrpc_notification(const char *method, json_t *params)
{
        if (!params)
                return json_pack("{s:s,s:s}", "jsonrpc", "2.0", "method", method);
        return json_pack("{s:s,s:s,s:o}", "jsonrpc", "2.0", "method", method, "params", params);
}
