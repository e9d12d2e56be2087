/* tools_code.c - the tool run_code, for sandboxes that have a code interpreter. */
#include <string.h>

#include "base/buf.h"
#include "cli/mcp/platform.h"
#include "cli/mcp/platform_tools.h"
#include "mcp/protocol/shorten.h"

#define TIMEOUT_S 120
#define TEXT_BYTES 30000u
#define PICTURES_MAX 8u
#define GRACE_MS 30000u

struct cell {
        struct work *work;
        struct shortened text;
        json_t *pictures;
        bool has_failed;
};

static int add(struct cell *c, struct sg_text text)
{
        return text.p ? shortened_add(&c->text, (struct str){text.p, text.n}) : 0;
}

/* A field of a result is JSON: a text in quotes, or a value. */
static json_t *field(struct sg_text text)
{
        return text.p ? json_loadb(text.p, text.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
}

static int add_result(struct cell *c, const struct sg_code_event *e)
{
        static const enum sg_code_field texts[] = {SG_CODE_TEXT, SG_CODE_MARKDOWN, SG_CODE_LATEX, SG_CODE_JSON},
                                        pictures[] = {SG_CODE_PNG, SG_CODE_JPEG};
        bool has_text = false;
        int r = 0;

        for (size_t i = 0; i < ARRAY_LEN(texts) && !has_text; i++) {
                json_t *value = field(e->fields[texts[i]]);

                has_text = value != NULL;
                if (json_is_string(value))
                        r = shortened_add(&c->text, (struct str){json_string_value(value), json_string_length(value)});
                else if (value)
                        r = add(c, e->fields[texts[i]]);
                if (value && r == 0)
                        r = shortened_add(&c->text, STR("\n"));
                json_decref(value);
        }
        for (size_t i = 0; i < ARRAY_LEN(pictures); i++) {
                json_t *data = field(e->fields[pictures[i]]);

                if (json_is_string(data) && json_array_size(c->pictures) < PICTURES_MAX)
                        (void)json_array_append_new(c->pictures,
                                                    json_pack("{s:s,s:O,s:s}", "type", "image", "data", data,
                                                              "mimeType", sg_code_field_mime(pictures[i])));
                json_decref(data);
        }
        return r;
}

static int add_error(struct cell *c, const struct sg_code_event *e)
{
        int r = add(c, e->name);

        c->has_failed = true;
        if (r == 0)
                r = shortened_add(&c->text, STR(": "));
        if (r == 0)
                r = add(c, e->value);
        if (r == 0)
                r = shortened_add(&c->text, STR("\n"));
        return r < 0 ? r : add(c, e->traceback);
}

static int on_event(const struct sg_code_event *e, void *arg)
{
        struct cell *c = arg;

        switch (e->type) {
        case SG_CODE_STDOUT:
        case SG_CODE_STDERR: work_progress(c->work, (struct str){e->text.p, e->text.n}); return add(c, e->text);
        case SG_CODE_RESULT: return add_result(c, e);
        case SG_CODE_ERROR: return add_error(c, e);
        default: return 0;
        }
}

static void answer(struct work *w, struct cell *c, bool is_timed_out)
{
        AUTO_BUF struct buf text = BUF_INIT(8 * TEXT_BYTES);
        json_t *content = json_array(), *one;
        size_t i;

        (void)shortened_text(&c->text, &text);
        if (text.len && buf_at(&text)[text.len - 1] != '\n')
                (void)buf_addc(&text, "\n");
        if (is_timed_out)
                (void)buf_addf(&text, "[stopped after %lld s, the time limit]\n",
                               (long long)arg_number(w->args, "timeout_s", TIMEOUT_S));
        (void)buf_addf(&text, "[%s, %.3f s]", c->has_failed || is_timed_out ? "failed" : "done", work_seconds(w));
        (void)json_array_append_new(content, tool_text_content((struct str){(const char *)buf_at(&text), text.len}));
        json_array_foreach (c->pictures, i, one) {
                (void)json_array_append(content, one);
        }
        json_decref(w->result);
        w->result = tool_result(content, NULL, c->has_failed || is_timed_out);
}

static void run_code(struct work *w)
{
        const char *code = arg_text(w->args, "code", "");
        uint32_t timeout_ms = (uint32_t)arg_number(w->args, "timeout_s", TIMEOUT_S) * 1000;
        struct sg_sandbox *box = work_open(w);
        struct cell cell = {.work = w, .pictures = json_array()};
        const struct sg_code_options opt = {
                .language = arg_text(w->args, "language", NULL), .on_event = on_event, .arg = &cell};
        struct sg_error err;

        if (!box) {
                json_decref(cell.pictures);
                return;
        }
        shortened_init(&cell.text, TEXT_BYTES);
        w->wait.timeout_ms = timeout_ms;
        if (sg_run_code(box, code, strlen(code), &opt, &w->wait, NULL, &err) == 0) {
                answer(w, &cell, false);
        } else if (err.kind == SG_TIMEOUT) {
                answer(w, &cell, true);
        } else {
                w->wait.timeout_ms = GRACE_MS;
                work_error(w, &err);
        }
        shortened_done(&cell.text);
        json_decref(cell.pictures);
        sg_sandbox_free(box);
}

const struct platform_tool platform_run_code = {
        .tool = {.name = "run_code",
                 .title = "Run code in a sandbox",
                 .description =
                         "Run code in the code interpreter of a sandbox, as a notebook cell: variables stay from "
                         "one run to the next. Returns output, the value of the last expression, and pictures. "
                         "The sandbox must be made from a template that has the interpreter "
                         "(code-interpreter-v1).",
                 .hints = TOOL_DESTROYS | TOOL_REACHES_OUT,
                 .schema = "{\"type\":\"object\",\"properties\":{" SCHEMA_ID
                           ",\"code\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":4000000},"
                           "\"language\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":50,\"description\":"
                           "\"python (the default), javascript, typescript, r, java, bash.\"},"
                           "\"timeout_s\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":86400,\"description\":"
                           "\"Default: 120.\"}},\"required\":[\"sandbox_id\",\"code\"],\"additionalProperties\":false}",
                 .run = work_start},
        .work = run_code,
};
