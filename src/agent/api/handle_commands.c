/* GET /sandboxes/{sandbox_id}/commands; DELETE of one command; POST …/stdin. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/exchange/ask.h"
#include "agent/api/commands.h"
#include "agent/exchange/exchange.h"
#include "agent/api/handlers.h"
#include "agent/request/command_request.h"
#include "agent/exchange/sandbox_find.h"
#include "base/err.h"
#include "model/json_field.h"
#include "wire/base64.h"

/* ---- list ---- */

static json_t *list_show_id(const json_t *p)
{
        const char *tag = json_string_value(json_object_get(p, "tag"));

        return tag ? json_string(tag) : json_sprintf("%d", (int)json_integer_value(json_object_get(p, "pid")));
}

static json_t *list_show_running(const json_t *p)
{
        const json_t *config = json_object_get(p, "config"), *args = json_object_get(config, "args");
        const char *last = json_string_value(json_array_get(args, json_array_size(args) - 1));
        json_t *obj = json_pack("{s:o,s:O,s:s}", "command_id", list_show_id(p), "pid", json_object_get(p, "pid"),
                                "status", "running");

        if (!last)
                last = json_string_value(json_object_get(config, "cmd"));
        obj = json_with_text(obj, "command", last);
        return json_with_ref(obj, "cwd", json_object_get(config, "cwd"));
}

static json_t *list_show_ended(const json_t *p)
{
        const json_t *end = json_object_get(p, "end");
        json_t *obj = json_pack("{s:o,s:O,s:s,s:I}", "command_id", list_show_id(p), "pid", json_object_get(p, "pid"),
                                "status", "exited", "exit_code", json_integer_value(json_object_get(end, "exitCode")));

        return json_with_text(obj, "command", json_string_value(json_object_get(p, "label")));
}

static void list_answered(struct exchange *x, const struct ask_answer *a)
{
        json_t *list, *p;
        size_t i;

        if (a->status != 200) {
                ask_pass_error(x, a);
                return;
        }
        list = json_array();
        json_array_foreach (json_object_get(a->body, "processes"), i, p)
                (void)json_array_append_new(list, list_show_running(p));
        json_array_foreach (json_object_get(a->body, "ended"), i, p)
                (void)json_array_append_new(list, list_show_ended(p));
        tell_json(x, 200, json_pack("{s:o}", "commands", list));
}

static void list_start(struct exchange *x)
{
        const struct http_header ended = {"Sandglass-Ended", "1"};
        json_t *nothing = json_object();

        ask(x, &(struct ask_options){.to = ASK_DAEMON,
                                     .method = "POST",
                                     .target = "/process.Process/List",
                                     .body = nothing,
                                     .header = &ended,
                                     .on_answer = list_answered});
        json_decref(nothing);
}

void agent_list_commands(struct exchange *x)
{
        sandbox_find_running(x, list_start);
}

/* ---- one command ---- */

struct command_call {
        struct command_id id;
        const char *signal;
        struct stdin_request input;
        struct buf bytes; /* input in base64 */
};

static void command_call_free(struct exchange *x)
{
        struct command_call *c = x->job;

        buf_done(&c->bytes);
        free(c);
}

/* NULL: the request is answered. */
static struct command_call *command_call_create(struct exchange *x)
{
        struct command_call *c = calloc(1, sizeof(*c));

        if (!c) {
                tell_no_memory(x);
                return NULL;
        }
        x->job = c;
        x->job_free = command_call_free;
        return command_id_take(x, &c->id) ? c : NULL;
}

/* One of envd's calls about the command, with one field more. */
static void command_ask(struct exchange *x, const char *method, const char *field, json_t *value,
                        void (*on_answer)(struct exchange *x, const struct ask_answer *a))
{
        const struct http_header group = {"Sandglass-Signal-Group", "1"};
        struct command_call *c = x->job;
        json_t *body = json_with(json_object(), "process", command_selector(&c->id));

        if (field)
                body = json_with(body, field, value);
        if (body)
                ask(x, &(struct ask_options){.to = ASK_DAEMON,
                                             .method = "POST",
                                             .target = method,
                                             .body = body,
                                             .header = &group,
                                             .on_answer = on_answer});
        else
                tell_no_memory(x);
        json_decref(body);
}

static void command_done(struct exchange *x, const struct ask_answer *a)
{
        struct command_call *c = x->job;

        if (a->status == 200)
                tell_empty(x, 204);
        else if (a->status == 404)
                tell_error(x, 404, NULL, "no command '%s' runs in sandbox '%s'", c->id.text, x->id);
        else
                ask_pass_error(x, a);
}

static void kill_start(struct exchange *x)
{
        struct command_call *c = x->job;

        command_ask(x, "/process.Process/SendSignal", "signal", json_string(c->signal), command_done);
}

void agent_kill_command(struct exchange *x)
{
        struct command_call *c = command_call_create(x);
        AUTO_FREE char *name = NULL;
        struct err err = {0};

        if (!c)
                return;
        if (exchange_query(x, "signal", &name, &err) < 0)
                tell_err(x, &err);
        else if (name && strcmp(name, "TERM") != 0 && strcmp(name, "KILL") != 0)
                tell_error(x, 400, NULL, "parameter 'signal' must be KILL or TERM");
        else {
                c->signal = name && strcmp(name, "TERM") == 0 ? "SIGNAL_SIGTERM" : "SIGNAL_SIGKILL";
                sandbox_find_running(x, kill_start);
        }
}

/* ---- input ---- */

static void stdin_done(struct exchange *x, const struct ask_answer *a)
{
        struct command_call *c = x->job;

        if (a->status == 500) /* envd has no code for this */
                tell_error(x, 409, NULL,
                           "command '%s' takes no input: it was started without stdin, or its input has ended",
                           c->id.text);
        else
                command_done(x, a);
}

static void stdin_close(struct exchange *x)
{
        command_ask(x, "/process.Process/CloseStdin", NULL, NULL, stdin_done);
}

static void stdin_sent(struct exchange *x, const struct ask_answer *a)
{
        struct command_call *c = x->job;

        if (a->status == 200 && c->input.closes)
                stdin_close(x);
        else
                stdin_done(x, a);
}

static void stdin_start(struct exchange *x)
{
        struct command_call *c = x->job;

        if (c->bytes.len == 0 && c->input.closes)
                stdin_close(x);
        else
                command_ask(x, "/process.Process/SendInput", "input",
                            json_pack("{s:o}", "stdin",
                                      json_stringn(c->bytes.len ? (const char *)buf_at(&c->bytes) : "", c->bytes.len)),
                            stdin_sent);
}

/* In base64, whichever way the data came: bytes that are no base64 are refused here. */
static int stdin_encode(struct command_call *c, struct err *err)
{
        AUTO_BUF struct buf raw = BUF_INIT(16u << 20);
        int r;

        buf_init(&c->bytes, 32u << 20);
        if (!c->input.is_base64) {
                r = base64_add(&c->bytes, c->input.data ? c->input.data : "", c->input.data_len, true);
        } else {
                r = base64_decode((struct str){c->input.data ? c->input.data : "", c->input.data_len}, &raw);
                if (r == -EINVAL)
                        return err_set(err, ERR_INVALID, "validation error: field 'data' is no base64");
                if (r == 0)
                        r = base64_add(&c->bytes, buf_at(&raw), raw.len, true);
        }
        return r < 0 ? err_set(err, ERR_LIMIT, "out of memory") : 0;
}

void agent_write_stdin(struct exchange *x)
{
        struct command_call *c = command_call_create(x);
        struct err err = {0};

        if (!c)
                return;
        if (stdin_request_decode(x->body, &c->input, &err) < 0 || stdin_encode(c, &err) < 0)
                tell_err(x, &err);
        else
                sandbox_find_running(x, stdin_start);
}
