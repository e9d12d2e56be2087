#include "agent/api/commands.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/exchange/exchange.h"
#include "agent/output/command_output.h"
#include "base/buf.h"
#include "model/ids.h"
#include "model/json_field.h"

#define JSON_MAX (24u << 20) /* of one output: 8 MiB of whatever is no UTF-8, as U+FFFD */

static bool is_id_char(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
               c == '.';
}

bool command_id_take(struct exchange *x, struct command_id *ret)
{
        struct str s = x->segment;

        *ret = (struct command_id){0};
        for (size_t i = 0; i < s.n; i++)
                if (!is_id_char(s.p[i]))
                        s.n = 0;
        if (s.n == 0 || s.n >= sizeof(ret->text)) {
                tell_error(x, 404, NULL, "no command has such an id");
                return false;
        }
        memcpy(ret->text, s.p, s.n);
        if (parse_u32(s, 1, INT32_MAX, &ret->pid) < 0)
                ret->pid = 0;
        return true;
}

void command_id_make(char out[COMMAND_ID_MAX])
{
        memcpy(out, COMMAND_ID_PREFIX, sizeof(COMMAND_ID_PREFIX));
        random_id(out + sizeof(COMMAND_ID_PREFIX) - 1, COMMAND_ID_RANDOM);
}

json_t *command_selector(const struct command_id *id)
{
        return id->pid ? json_pack("{s:I}", "pid", (json_int_t)id->pid) : json_pack("{s:s}", "tag", id->text);
}

void command_tell_missing(struct exchange *x, const struct command_id *id)
{
        tell_error(x, 404, NULL, "sandbox '%s' has no command '%s', or it ended long ago", x->id, id->text);
}

void command_tell_failure(struct exchange *x, const struct envd_process_end *end)
{
        const char *code = end->code;

        if (end->err.kind == ERR_TIMEOUT)
                tell_error(x, 504, NULL, "%s", end->err.msg);
        else if (strcmp(code, "invalid_argument") == 0 || strcmp(code, "failed_precondition") == 0 ||
                 strcmp(code, "out_of_range") == 0 || strcmp(code, "unauthenticated") == 0)
                tell_error(x, 400, NULL, "%s", end->err.msg); /* no such user, no such directory */
        else if (strcmp(code, "not_found") == 0)
                tell_error(x, 404, NULL, "%s", end->err.msg);
        else if (strcmp(code, "resource_exhausted") == 0)
                tell_error(x, 429, NULL, "%s", end->err.msg);
        else if (end->http_status >= 400 && end->http_status != 401) /* that is about the caller's token */
                tell_error(x, end->http_status, NULL, "%s", end->err.msg);
        else if (end->err.kind == ERR_UNAVAILABLE)
                tell_error(x, 502, "sandbox_lost",
                           "the connection to the sandbox broke: it was killed or paused, or the "
                           "server restarts. The command may still run");
        else
                tell_error(x, 502, NULL, "%s", end->err.msg);
}

json_t *command_show_end(json_t *obj, const struct envd_process_end *end)
{
        obj = json_with(obj, "exit_code", json_integer(end->exit_code));
        if (strncmp(end->status, "signal: ", 8) == 0)
                obj = json_with(obj, "signal", json_string(end->status + 8));
        return obj;
}

static int show_output(const json_t *obj, struct command_output *out, struct command_output *err, size_t json_max,
                       struct buf *ret)
{
        json_t *all = json_object();
        int r;

        command_output_fit(out, json_max);
        command_output_fit(err, json_max);
        all = json_with(all, "stdout", command_output_text(out));
        all = json_with(all, "stderr", command_output_text(err));
        if (command_output_omitted(out) || command_output_omitted(err))
                all = json_with(all, "truncated", json_true());
        r = !all || json_object_update(all, (json_t *)(uintptr_t)obj) < 0 ? -ENOMEM : json_answer_text(all, ret);
        json_decref(all);
        return r;
}

void command_tell(struct exchange *x, json_t *obj, struct command_output *out, struct command_output *err)
{
        AUTO_BUF struct buf text = BUF_INIT(0);
        int r = obj ? show_output(obj, out, err, JSON_MAX, &text) : -ENOMEM;

        if (r == 0 && !exchange_try_output_answer(x, text.len)) {
                buf_done(&text);
                r = show_output(obj, out, err, OUTPUT_LEAST, &text);
                (void)exchange_try_output_answer(x, text.len); /* so small that it does not depend on this */
        }
        json_decref(obj);
        command_output_done(out);
        command_output_done(err);
        if (r == 0)
                tell_text(x, 200, (struct str){(const char *)buf_at(&text), text.len});
        else
                tell_no_memory(x);
}
