/* tools_code.c - the tool run_code, for sandboxes that have a code interpreter. */
#include <string.h>

#include "cli/mcp/platform.h"
#include "cli/mcp/platform_tools.h"
#include "mcp/content/code_output.h"

#define TIMEOUT_S 120
#define GRACE_MS 30000u

struct run {
        struct work *work;
        struct code_output output;
};

static struct str str_from(struct sg_text text)
{
        return (struct str){text.p, text.p ? text.n : 0};
}

/* A field of a result is JSON: a text in quotes, or a value. */
static json_t *field(struct sg_text text)
{
        return text.p ? json_loadb(text.p, text.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
}

static int add_result(struct code_output *c, const struct sg_code_event *e)
{
        static const enum sg_code_field names[] = {SG_CODE_TEXT, SG_CODE_MARKDOWN, SG_CODE_LATEX,
                                                   SG_CODE_JSON, SG_CODE_PNG,      SG_CODE_JPEG};
        json_t *values[ARRAY_LEN(names)];
        int r;

        for (size_t i = 0; i < ARRAY_LEN(names); i++)
                values[i] = field(e->fields[names[i]]);
        r = code_output_add_result(
                c, &(struct code_result){values[0], values[1], values[2], values[3], values[4], values[5]});
        for (size_t i = 0; i < ARRAY_LEN(names); i++)
                json_decref(values[i]);
        return r;
}

static int on_event(const struct sg_code_event *e, void *arg)
{
        struct run *run = arg;

        switch (e->type) {
        case SG_CODE_STDOUT:
        case SG_CODE_STDERR:
                work_progress(run->work, str_from(e->text));
                return code_output_add(&run->output, str_from(e->text));
        case SG_CODE_RESULT: return add_result(&run->output, e);
        case SG_CODE_ERROR:
                return code_output_add_error(&run->output, str_from(e->name), str_from(e->value),
                                             str_from(e->traceback));
        default: return 0;
        }
}

static void answer(struct run *run, unsigned stopped_after_s)
{
        json_t *result = code_output_result(&run->output, work_seconds(run->work), stopped_after_s);

        if (!result) {
                work_failed(run->work, "out of memory");
                return;
        }
        json_decref(run->work->result);
        run->work->result = result;
}

static void run_code(struct work *w)
{
        const char *code = arg_text(w->args, "code", "");
        uint32_t timeout_s = (uint32_t)arg_number(w->args, "timeout_s", TIMEOUT_S);
        struct sg_sandbox *box = work_open(w);
        struct run run = {.work = w};
        const struct sg_code_options opt = {
                .language = arg_text(w->args, "language", NULL), .on_event = on_event, .arg = &run};
        struct sg_error err;

        if (!box)
                return;
        code_output_init(&run.output);
        w->wait.timeout_ms = timeout_s * 1000;
        if (sg_run_code(box, code, strlen(code), &opt, &w->wait, NULL, &err) == 0) {
                answer(&run, 0);
        } else if (err.kind == SG_TIMEOUT) {
                answer(&run, timeout_s);
        } else {
                w->wait.timeout_ms = GRACE_MS;
                work_error(w, &err);
        }
        code_output_done(&run.output);
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
        .is_long = true,
};
