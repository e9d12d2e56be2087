#include "agent/request/code_request.h"

#include <errno.h>
#include <string.h>

#include "agent/request/text_field.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "model/json_field.h"
#include "wire/json/json_values.h"

#define OUTPUT_MAX (32u << 20)

int code_request_decode(const json_t *body, json_t **ret, uint32_t *ret_timeout_s, struct err *err)
{
        const char *code = NULL, *language = NULL, *context = NULL;
        int64_t timeout_s = CODE_TIMEOUT_S;
        json_t *env = NULL, *to;
        int r;

        if ((r = json_field_text(body, "code", &code, err)) < 0 ||
            (r = text_field(body, "language", &language, err)) < 0 ||
            (r = text_field(body, "context_id", &context, err)) < 0 || (r = text_field_env(body, &env, err)) < 0 ||
            (r = json_field_int(body, "timeout_s", 1, CODE_TIMEOUT_MAX_S, &timeout_s, err)) < 0)
                return r;
        if (!code)
                return err_set(err, ERR_INVALID, "validation error: field 'code' is required");
        if (language && context)
                return err_set(err, ERR_INVALID,
                               "validation error: only one of 'context_id' and 'language' may be given");
        to = json_with_ref(json_object(), "code", json_object_get(body, "code"));
        to = json_with_text(to, "language", language);
        to = json_with_text(to, "context_id", context);
        to = json_with_ref(to, "env_vars", env);
        *ret = to;
        *ret_timeout_s = (uint32_t)timeout_s;
        return to ? 0 : err_set(err, ERR_LIMIT, "out of memory");
}

struct code_answer {
        struct buf out, err;
        json_t *results, *error, *count; /* owned */
        bool is_over;
};

static void code_answer_done(struct code_answer *a)
{
        buf_done(&a->out);
        buf_done(&a->err);
        json_decref(a->results);
        json_decref(a->error);
        json_decref(a->count);
}

static int add_text(struct buf *out, const json_t *line)
{
        const json_t *text = json_object_get(line, "text");

        return buf_add(out, json_string_value(text) ? json_string_value(text) : "", json_string_length(text));
}

static int take_result(struct code_answer *a, json_t *line)
{
        (void)json_object_del(line, "type");
        return json_array_append(a->results, line);
}

static int take_line(struct code_answer *a, json_t *line)
{
        const char *type = json_string_value(json_object_get(line, "type"));

        if (!type)
                return -EPROTO;
        if (strcmp(type, "stdout") == 0)
                return add_text(&a->out, line);
        if (strcmp(type, "stderr") == 0)
                return add_text(&a->err, line);
        if (strcmp(type, "result") == 0)
                return take_result(a, line);
        if (strcmp(type, "error") == 0) {
                (void)json_object_del(line, "type");
                json_decref(a->error);
                a->error = json_incref(line);
        } else if (strcmp(type, "number_of_executions") == 0) {
                json_decref(a->count);
                a->count = json_incref(json_object_get(line, "execution_count"));
        } else if (strcmp(type, "end_of_execution") == 0) {
                a->is_over = true;
        }
        return 0; /* keepalives, and what later versions may say */
}

static json_t *text_of(const struct buf *b)
{
        return json_stringn(b->len ? (const char *)buf_at(b) : "", b->len);
}

static json_t *code_answer_show(const struct code_answer *a)
{
        json_t *obj = json_with(json_object(), "stdout", text_of(&a->out));

        obj = json_with(obj, "stderr", text_of(&a->err));
        obj = json_with_ref(obj, "results", a->results);
        obj = json_with_ref(obj, "error", a->error);
        return json_with_ref(obj, "execution_count", a->count);
}

int code_answer_decode(struct str lines, json_t **ret, struct err *err)
{
        AUTO(code_answer_done)
        struct code_answer a = {.out = BUF_INIT(OUTPUT_MAX), .err = BUF_INIT(OUTPUT_MAX), .results = json_array()};
        bool more = lines.n > 0;
        struct str one;

        if (json_values_most(lines) > JSON_VALUES_MAX)
                return err_set(err, ERR_TOO_LARGE, "the results are too large for one answer");
        while (more) {
                json_t *line;
                int r;

                more = str_cut(&lines, '\n', &one);
                if (one.n == 0)
                        continue;
                line = json_loadb(one.p, one.n, JSON_ALLOW_NUL, NULL);
                r = line ? take_line(&a, line) : -EPROTO;
                json_decref(line);
                if (r < 0)
                        return err_set(err, ERR_INTERNAL, "the code interpreter does not speak its protocol");
        }
        if (!a.is_over)
                return err_set(err, ERR_INTERNAL, "the code interpreter ended before the code did");
        *ret = code_answer_show(&a);
        return *ret ? 0 : err_set(err, ERR_LIMIT, "out of memory");
}
