/* code.c - the tool run_code, where a code interpreter serves in this sandbox. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "mcp/content/code_output.h"
#include "mcp/protocol/call.h"
#include "mcp/protocol/mcp.h"
#include "mcp/tools/once.h"
#include "mcp/tools/ports.h"
#include "mcp/tools/sandbox_tools.h"

#define INTERPRETER_PORT 49999
#define INTERPRETER_URL "http://127.0.0.1:49999/execute"
#define TIMEOUT_S 120u
#define LINE_BYTES_MAX (32u << 20) /* one event; a picture is one */

static bool has_interpreter(const struct mcp *m)
{
        (void)m;
        return port_listens(INTERPRETER_PORT);
}

struct run {
        struct code_output output;
        struct buf line; /* of the stream, as far as it has come */
        uint64_t begun_us;
        unsigned timeout_s;
        bool is_long;  /* the line under way is dropped */
        bool has_line; /* one of the stream has come */
};

static struct str text_in(const json_t *from, const char *key)
{
        const json_t *value = json_object_get(from, key);

        return (struct str){json_string_value(value), json_string_length(value)};
}

static int take_event(struct run *r, const json_t *e)
{
        struct str type = text_in(e, "type");

        if (str_is(type, "stdout") || str_is(type, "stderr"))
                return code_output_add(&r->output, text_in(e, "text"));
        if (str_is(type, "error"))
                return code_output_add_error(&r->output, text_in(e, "name"), text_in(e, "value"),
                                             text_in(e, "traceback"));
        if (!str_is(type, "result"))
                return 0;
        return code_output_add_result(&r->output, &(struct code_result){.text = json_object_get(e, "text"),
                                                                        .markdown = json_object_get(e, "markdown"),
                                                                        .latex = json_object_get(e, "latex"),
                                                                        .json = json_object_get(e, "json"),
                                                                        .png = json_object_get(e, "png"),
                                                                        .jpeg = json_object_get(e, "jpeg")});
}

/* An event, or an error of the service: plain text. */
static void take_line(struct run *r)
{
        struct str line = {(const char *)buf_at(&r->line), r->line.len};
        json_t *event = line.n ? json_loadb(line.p, line.n, JSON_ALLOW_NUL, NULL) : NULL;

        if (r->is_long) {
                (void)code_output_add_failure(&r->output, "an event of more than 32 MiB was left out");
        } else if (event) {
                (void)take_event(r, event);
        } else if (line.n && !r->has_line) {
                (void)code_output_add(&r->output, line);
                r->output.has_failed = true;
        }
        r->has_line = r->has_line || event;
        r->is_long = false;
        json_decref(event);
        if (r->line.cap > (64u << 10))
                buf_done(&r->line);
        else
                buf_reset(&r->line);
}

static bool take_piece(void *arg, struct str piece)
{
        struct run *r = arg;

        while (piece.n) {
                const char *end = memchr(piece.p, '\n', piece.n);
                size_t n = end ? (size_t)(end - piece.p) : piece.n;

                if (!r->is_long && buf_add(&r->line, piece.p, n) < 0) {
                        r->is_long = true;
                        buf_done(&r->line);
                }
                if (end)
                        take_line(r);
                n += end != NULL;
                piece = (struct str){piece.p + n, piece.n - n};
        }
        return true;
}

static void run_free(void *arg)
{
        struct run *r = arg;

        code_output_done(&r->output);
        buf_done(&r->line);
        free(r);
}

static void on_done(struct call *c, const struct once_output *o)
{
        struct run *r = o->arg;

        if (r->line.len || r->is_long)
                take_line(r);
        if (o->exit_code != 0 && !o->is_timed_out && r->output.text.total == 0) {
                tool_failed(c, "the code interpreter does not answer: %.*s", STR_ARG(o->err));
                return;
        }
        if (o->exit_code != 0 && !o->is_timed_out)
                (void)code_output_add_failure(&r->output, "the code interpreter has ended the connection");
        call_result(c, code_output_result(&r->output, (double)(clock_mono_us() - r->begun_us) / 1e6,
                                          o->is_timed_out ? r->timeout_s : 0));
}

static struct run *run_create(unsigned timeout_s)
{
        struct run *r = calloc(1, sizeof(*r));

        if (r) {
                code_output_init(&r->output);
                buf_init(&r->line, LINE_BYTES_MAX);
                r->begun_us = clock_mono_us();
                r->timeout_s = timeout_s;
        }
        return r;
}

static void run_code(struct call *c, json_t *args)
{
        static const char *const argv[] = {
                "curl",          "-sSN", "--noproxy",     "*", "-H", "Content-Type: application/json",
                "--data-binary", "@-",   INTERPRETER_URL, NULL};
        json_t *body = json_pack("{s:O,s:s*}", "code", json_object_get(args, "code"), "language",
                                 arg_text(args, "language", NULL));
        AUTO_FREE char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
        uint32_t timeout_s = (uint32_t)arg_number(args, "timeout_s", TIMEOUT_S);
        struct run *run = text ? run_create(timeout_s) : NULL;
        struct once_options opt = {.argv = argv,
                                   .input = str_of(text),
                                   .timeout_s = timeout_s,
                                   .take = take_piece,
                                   .arg = run,
                                   .release = run_free,
                                   .on_done = on_done};

        json_decref(body);
        if (run)
                once_run(c, &opt);
        else
                tool_failed(c, "out of memory");
}

const struct tool tool_run_code = {
        .name = "run_code",
        .title = "Run code",
        .description = "Run code in the code interpreter, as a notebook cell: variables stay from one run to the next. "
                       "Returns output, the value of the last expression, and pictures.",
        .hints = TOOL_DESTROYS | TOOL_REACHES_OUT,
        .schema = "{\"type\":\"object\",\"properties\":{\"code\":{\"type\":\"string\",\"minLength\":1},\"language\":{"
                  "\"type\":\"string\",\"minLength\":1,\"description\":\"python (the default), "
                  "javascript, typescript, r, java, "
                  "bash.\"},\"timeout_s\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":86400,\"description\":"
                  "\"Default: 120.\"}},"
                  "\"required\":[\"code\"],\"additionalProperties\":false}",
        .is_there = has_interpreter,
        .run = run_code,
};
