/* code.c - the tool run_code, where a code interpreter serves in this sandbox. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "mcp/protocol/call.h"
#include "mcp/protocol/mcp.h"
#include "mcp/tools/once.h"
#include "mcp/tools/ports.h"
#include "mcp/tools/sandbox_tools.h"

#define INTERPRETER_PORT 49999
#define INTERPRETER_URL "http://127.0.0.1:49999/execute"
#define OUTPUT_BYTES (16u << 20)
#define TEXT_BYTES 30000u
#define PICTURES_MAX 8u

static bool has_interpreter(const struct mcp *m)
{
        (void)m;
        return port_listens(INTERPRETER_PORT);
}

static void add_text(struct buf *text, const json_t *from, const char *key)
{
        const char *value = json_string_value(json_object_get(from, key));
        size_t n = value ? strlen(value) : 0;

        (void)buf_add(text, value, n < buf_room(text) ? n : buf_room(text));
}

static void add_result(struct buf *text, json_t *content, const json_t *line)
{
        static const struct {
                const char *key, *type;
        } pictures[] = {{"png", "image/png"}, {"jpeg", "image/jpeg"}};

        if (json_object_get(line, "text")) {
                add_text(text, line, "text");
                (void)buf_addc(text, "\n");
        }
        for (size_t i = 0; i < ARRAY_LEN(pictures); i++) {
                json_t *data = json_object_get(line, pictures[i].key);

                if (json_is_string(data) && json_array_size(content) < PICTURES_MAX)
                        (void)json_array_append_new(content, json_pack("{s:s,s:O,s:s}", "type", "image", "data", data,
                                                                       "mimeType", pictures[i].type));
        }
}

/* One line of the stream; true: the code failed. */
static bool add_line(struct buf *text, json_t *content, const json_t *line)
{
        const char *type = json_string_value(json_object_get(line, "type"));

        if (!type)
                return false;
        if (strcmp(type, "stdout") == 0 || strcmp(type, "stderr") == 0) {
                add_text(text, line, "text");
        } else if (strcmp(type, "result") == 0) {
                add_result(text, content, line);
        } else if (strcmp(type, "error") == 0) {
                add_text(text, line, "name");
                (void)buf_addc(text, ": ");
                add_text(text, line, "value");
                (void)buf_addc(text, "\n");
                add_text(text, line, "traceback");
                return true;
        }
        return false;
}

static void on_done(struct call *c, const struct once_output *o)
{
        AUTO_BUF struct buf text = BUF_INIT(TEXT_BYTES);
        json_t *content = json_array();
        struct str rest = o->out, one;
        bool has_failed = false;

        if (o->exit_code != 0 && !o->is_timed_out && o->out.n == 0) {
                json_decref(content);
                tool_failed(c, "the code interpreter does not answer: %.*s", STR_ARG(o->err));
                return;
        }
        while (rest.n) {
                json_t *line;

                (void)str_cut(&rest, '\n', &one);
                line = json_loadb(one.p, one.n, 0, NULL);
                if (line)
                        has_failed = add_line(&text, content, line) || has_failed;
                else if (one.n && json_array_size(content) == 0 &&
                         text.len == 0) /* an error of the service is plain text */
                        has_failed = buf_add(&text, one.p, one.n < TEXT_BYTES ? one.n : TEXT_BYTES) == 0;
                json_decref(line);
        }
        if (o->is_timed_out)
                (void)buf_addc(&text, "\n[stopped: the time limit]");
        if (text.len == 0)
                (void)buf_addc(&text, "[no output]");
        (void)json_array_insert_new(
                content, 0, json_pack("{s:s,s:s%}", "type", "text", "text", (const char *)buf_at(&text), text.len));
        call_result(c, json_pack("{s:o,s:b}", "content", content, "isError", has_failed || o->is_timed_out));
}

static void run_code(struct call *c, json_t *args)
{
        static const char *const argv[] = {
                "curl",          "-sSN", "--noproxy",     "*", "-H", "Content-Type: application/json",
                "--data-binary", "@-",   INTERPRETER_URL, NULL};
        json_t *body = json_pack("{s:O,s:s*}", "code", json_object_get(args, "code"), "language",
                                 arg_text(args, "language", NULL));
        AUTO_FREE char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
        struct once_options opt = {.argv = argv,
                                   .input = str_of(text),
                                   .output_max = OUTPUT_BYTES,
                                   .timeout_s = (uint32_t)arg_number(args, "timeout_s", 120),
                                   .on_done = on_done};

        json_decref(body);
        if (text)
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
