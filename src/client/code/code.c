/* Code runs in the code interpreter of a sandbox. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "client/block.h"
#include "client/code/interpreter.h"
#include "client/code/run_stream.h"
#include "wire/json/json_text.h"

#define CODE_MAX (32u << 20)
#define REQUEST_MAX (63u << 20) /* with its head less than the HTTP client takes */
#define RUN_MS 300000u
#define LINGER_MS 5000u /* between the last event of a run and the end of its answer */

_Static_assert((int)RUN_FIELD_COUNT == (int)SG_CODE_FIELD_COUNT && (int)RUN_CHART == (int)SG_CODE_CHART &&
                       (int)RUN_PNG == (int)SG_CODE_PNG,
               "the fields of a result are the same");

const char *sg_code_field_mime(enum sg_code_field field)
{
        return (size_t)field < RUN_FIELD_COUNT ? run_field_mime((enum run_field)field) : "";
}

/* ---- what is kept for the result ---- */

struct run {
        struct interpreter_stream stream;
        const struct sg_code_options *o;
        struct run_stream lines;
        struct buf out, err, text, results, name, value, traceback;
        bool keeps, is_cut, has_failed, is_refused;
};

static void keep(struct run *run, struct buf *to, struct str bytes)
{
        size_t room = buf_room(to), n = bytes.n < room ? bytes.n : room;

        if (buf_add(to, bytes.p, n) < 0 || n < bytes.n)
                run->is_cut = true;
}

static void keep_result(struct run *run, const struct run_event *e)
{
        size_t before = run->results.len;

        if (buf_room(&run->results) < e->line.n + 2 || buf_addc(&run->results, before > 1 ? "," : "") < 0 ||
            buf_add(&run->results, e->line.p, e->line.n) < 0)
                run->is_cut = true;
        if (e->is_main && e->fields[RUN_TEXT].n) {
                buf_reset(&run->text);
                if (json_text_unquote(e->fields[RUN_TEXT], &run->text) < 0)
                        run->is_cut = true;
        }
}

static void keep_event(struct run *run, const struct run_event *e)
{
        switch (e->type) {
        case RUN_STDOUT: keep(run, &run->out, e->text); break;
        case RUN_STDERR: keep(run, &run->err, e->text); break;
        case RUN_RESULT: keep_result(run, e); break;
        case RUN_ERROR:
                if (run->has_failed)
                        break;
                keep(run, &run->name, e->name);
                keep(run, &run->value, e->value);
                keep(run, &run->traceback, e->traceback);
                break;
        default: break;
        }
        run->has_failed |= e->type == RUN_ERROR;
}

/* ---- events ---- */

static struct sg_text text_of(struct str s)
{
        return (struct sg_text){s.p, s.n};
}

static enum sg_code_event_type type_of(enum run_event_type type)
{
        static const enum sg_code_event_type types[] = {
                [RUN_COUNT] = SG_CODE_COUNT,   [RUN_STDOUT] = SG_CODE_STDOUT, [RUN_STDERR] = SG_CODE_STDERR,
                [RUN_RESULT] = SG_CODE_RESULT, [RUN_ERROR] = SG_CODE_ERROR,   [RUN_KEEPALIVE] = SG_CODE_KEEPALIVE,
                [RUN_END] = SG_CODE_END,       [RUN_OTHER] = SG_CODE_OTHER,
        };

        return types[type];
}

static int tell_event(const struct run *run, const struct run_event *e)
{
        struct sg_code_event event = {.type = type_of(e->type),
                                      .json = text_of(e->line),
                                      .count = e->count,
                                      .is_main = e->is_main,
                                      .text = text_of(e->text),
                                      .name = text_of(e->name),
                                      .value = text_of(e->value),
                                      .traceback = text_of(e->traceback),
                                      .extra = text_of(e->extra)};

        for (size_t i = 0; i < RUN_FIELD_COUNT; i++)
                event.fields[i] = text_of(e->fields[i]);
        return run->o->on_event(&event, run->o->arg);
}

static int on_event(const struct run_event *e, void *arg, struct err *err)
{
        struct run *run = arg;

        if (run->keeps)
                keep_event(run, e);
        if (run->o->on_event && tell_event(run, e) < 0) {
                run->is_refused = true;
                return err_set(err, ERR_INTERRUPTED, "cancelled by a callback");
        }
        return 0;
}

/* ---- the answer ---- */

static void linger_is_over(struct timer *t)
{
        loop_stop(CONTAINER_OF(t, struct interpreter_stream, linger)->lane->loop);
}

static int on_body(struct str piece, struct loop *loop, void *arg, struct sg_error *err)
{
        struct run *run = arg;
        struct err why = {0};
        int r = run_stream_feed(&run->lines, piece, on_event, run, &why);

        if (r < 0)
                return error_from(err, &why);
        if (run->lines.is_over && !timer_is_armed(&run->stream.linger))
                timer_set(loop, &run->stream.linger, LINGER_MS);
        return 0;
}

static int env_json(const struct sg_pair *env, struct buf *out)
{
        int r = buf_addc(out, ",\"env_vars\":{");

        for (size_t i = 0; r == 0 && env[i].name; i++) {
                r = buf_addc(out, i ? "," : "");
                if (r == 0)
                        r = json_text_quote(str_of(env[i].name), out);
                if (r == 0)
                        r = buf_addc(out, ":");
                if (r == 0)
                        r = json_text_quote(str_of(env[i].value), out);
        }
        return r < 0 ? r : buf_addc(out, "}");
}

/* {"code", "language" or "context_id", "env_vars"} */
static int request_body(struct str code, const struct sg_code_options *o, struct buf *out, struct sg_error *err)
{
        int r = buf_addc(out, "{\"code\":");

        if (r == 0)
                r = json_text_quote(code, out);
        if (r == 0 && (o->language || o->context))
                r = buf_addc(out, o->context ? ",\"context_id\":" : ",\"language\":");
        if (r == 0 && (o->language || o->context))
                r = json_text_quote(str_of(o->context ? o->context : o->language), out);
        if (r == 0 && o->env && o->env->name)
                r = env_json(o->env, out);
        if (r == 0)
                r = buf_addc(out, "}");
        if (r == -E2BIG)
                return error_set(err, SG_TOO_LARGE, "the code is too large");
        return r < 0 ? error_no_memory(err) : 0;
}

static int check_code(struct str code, const struct sg_code_options *o, struct sg_error *err)
{
        int r = check_reserved(o->reserved, ARRAY_LEN(o->reserved), err);

        if (r == 0 && code.n > CODE_MAX)
                r = error_set(err, SG_TOO_LARGE, "the code has more than %u MiB", CODE_MAX >> 20);
        if (r == 0 && !str_is_utf8(code))
                r = error_set(err, SG_INVALID, "the code is not valid UTF-8");
        if (r == 0 && o->language && o->context)
                r = error_set(err, SG_INVALID, "language and context: at most one of them");
        if (r == 0 && o->language)
                r = check_text(o->language, "the language", 256, err);
        if (r == 0 && o->context)
                r = check_text(o->context, "the context", 256, err);
        return r < 0 ? r : check_pairs(o->env, "env", err);
}

static int give_result(const struct run *run, struct sg_code_result **ret, struct sg_error *err)
{
        struct sg_code_result *res = block_create(sizeof(*res));

        if (res)
                *res = (struct sg_code_result){.has_failed = run->has_failed,
                                               .out = block_text(res, buf_text(&run->out)),
                                               .err = block_text(res, buf_text(&run->err)),
                                               .text = block_text(res, buf_text(&run->text)),
                                               .error_name = block_text(res, buf_text(&run->name)),
                                               .error_value = block_text(res, buf_text(&run->value)),
                                               .traceback = block_text(res, buf_text(&run->traceback)),
                                               .results_json = block_text(res, buf_text(&run->results)),
                                               .is_cut = run->is_cut};
        if (!res || !res->out || !res->err || !res->text || !res->error_name || !res->error_value || !res->traceback ||
            !res->results_json) {
                sg_free(res);
                return error_no_memory(err);
        }
        *ret = res;
        return 0;
}

static int run_answer(struct run *run, struct sg_sandbox *box, struct str body, struct limit *l, struct sg_error *err)
{
        struct sg_error why = {0};
        struct err ended = {0};
        int r = interpreter_stream(box, &run->stream, body, l, &why);

        if (run->is_refused)
                return error_set(err, SG_CANCELLED, "cancelled by a callback");
        if (run->lines.is_over)
                return 0;
        if (r == 0 && run_stream_finish(&run->lines, on_event, run, &ended) < 0)
                return error_from(err, &ended);
        if (r < 0 && why.kind == SG_TIMEOUT && !why.http_status)
                return error_set(err, SG_TIMEOUT, "the run took longer than %g s, and was interrupted",
                                 (double)l->limit_ms / 1e3);
        return r < 0 ? error_pass(err, &why) : 0;
}

static void run_done(struct run *run)
{
        struct buf *const all[] = {&run->out,  &run->err,   &run->text,     &run->results,
                                   &run->name, &run->value, &run->traceback};

        for (size_t i = 0; i < ARRAY_LEN(all); i++)
                buf_done(all[i]);
        run_stream_done(&run->lines);
}

int sg_run_code(struct sg_sandbox *box, const char *code, size_t len, const struct sg_code_options *options,
                const struct sg_call *call, struct sg_code_result **ret, struct sg_error *err)
{
        static const struct sg_code_options usual;
        const struct sg_code_options *o = options ? options : &usual;
        size_t max = o->kept_max ? o->kept_max : SG_OUTPUT_MAX;
        AUTO_BUF struct buf body = BUF_INIT(REQUEST_MAX);
        struct run run = {.o = o,
                          .keeps = ret != NULL,
                          .out = BUF_INIT(max),
                          .err = BUF_INIT(max),
                          .text = BUF_INIT(max),
                          .results = BUF_INIT(max + 2),
                          .name = BUF_INIT(max),
                          .value = BUF_INIT(max),
                          .traceback = BUF_INIT(max)};
        struct limit l;
        const struct str text = {code ? code : "", len};
        int r = check_bytes(code, len, "the code", err);

        if (r == 0)
                r = check_code(text, o, err);
        if (r == 0)
                r = request_body(text, o, &body, err);
        if (r == 0)
                r = limit_begin(&l, call, RUN_MS, err);
        if (r < 0)
                return r;
        run.stream = (struct interpreter_stream){.on_body = on_body, .arg = &run, .linger = {.on = linger_is_over}};
        run_stream_init(&run.lines, RUN_LINE_MAX);
        if (buf_addc(&run.results, "[") < 0)
                r = error_no_memory(err);
        if (r == 0)
                r = run_answer(&run, box, buf_text(&body), &l, err);
        if (r == 0 && buf_addc(&run.results, "]") < 0)
                r = error_no_memory(err);
        if (r == 0 && ret)
                r = give_result(&run, ret, err);
        run_done(&run);
        return r;
}
