#include "agent/request/command_request.h"

#include <errno.h>
#include <string.h>

#include "agent/request/text_field.h"
#include "base/err.h"
#include "model/json_field.h"

static int decode_env(const json_t *body, json_t **ret, struct err *err)
{
        const char *name;
        size_t bytes = 0;
        json_t *v;
        int r = text_field_env(body, ret, err);

        if (r < 0)
                return r;
        json_object_foreach (*ret, name, v)
                bytes += strlen(name) + json_string_length(v);
        if (bytes > COMMAND_ENV_MAX)
                return err_set(err, ERR_INVALID, "validation error: field 'env' is larger than %u bytes",
                               COMMAND_ENV_MAX);
        return 0;
}

int command_request_decode(const json_t *body, struct command_request *ret, struct err *err)
{
        struct command_request c = {0};
        int64_t timeout_s = 0;
        int r;

        if ((r = text_field(body, "command", &c.command, err)) < 0 ||
            (r = json_field_bool(body, "background", &c.is_background, err)) < 0 ||
            (r = json_field_bool(body, "stdin", &c.has_stdin, err)) < 0 ||
            (r = text_field(body, "cwd", &c.cwd, err)) < 0 || (r = text_field_user(body, &c.user, err)) < 0 ||
            (r = json_field_int(body, "timeout_s", 0, COMMAND_TIMEOUT_MAX_S, &timeout_s, err)) < 0 ||
            (r = decode_env(body, &c.env, err)) < 0)
                return r;
        if (!c.command)
                return err_set(err, ERR_INVALID, "validation error: field 'command' is required");
        if (!c.command[0])
                return err_set(err, ERR_INVALID, "validation error: field 'command' is empty");
        if (strlen(c.command) >= COMMAND_TEXT_MAX)
                return err_set(err, ERR_INVALID,
                               "validation error: field 'command' is longer than %u bytes: write it to a file",
                               COMMAND_TEXT_MAX);
        if (c.cwd && c.cwd[0] != '/')
                return err_set(err, ERR_INVALID, "validation error: field 'cwd' must be an absolute path");
        if (c.has_stdin && !c.is_background)
                return err_set(err, ERR_INVALID, "validation error: field 'stdin' needs 'background': true");
        c.timeout_s = (uint32_t)timeout_s;
        *ret = c;
        return 0;
}

int encoding_decode(const json_t *body, bool *ret_is_base64, struct err *err)
{
        const char *text = "utf-8";
        int r = text_field(body, "encoding", &text, err);

        if (r < 0)
                return r;
        *ret_is_base64 = strcmp(text, "base64") == 0;
        if (!*ret_is_base64 && strcmp(text, "utf-8") != 0)
                return err_set(err, ERR_INVALID, "validation error: field 'encoding' must be utf-8 or base64");
        return 0;
}

int stdin_request_decode(const json_t *body, struct stdin_request *ret, struct err *err)
{
        struct stdin_request s = {0};
        int r;

        if ((r = json_field_text(body, "data", &s.data, err)) < 0 ||
            (r = encoding_decode(body, &s.is_base64, err)) < 0 ||
            (r = json_field_bool(body, "close", &s.closes, err)) < 0)
                return r;
        if (!s.data && !s.closes)
                return err_set(err, ERR_INVALID, "validation error: field 'data' is required, or 'close': true");
        s.data_len = json_string_length(json_object_get(body, "data"));
        *ret = s;
        return 0;
}
