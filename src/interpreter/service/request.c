#include "interpreter/service/request.h"

#include <errno.h>

#include "base/auto.h"
#include "interpreter/jupyter/language.h"

#define VARIABLES_BYTES_MAX (4u << 20)

struct faults {
        json_t *list; /* NULL: none yet */
};

/* Steals `where` (the path below "body", an array) and `context` (may be NULL). */
static void fault_add(struct faults *f, const char *type, json_t *where, const char *message, json_t *input,
                      json_t *context)
{
        json_t *entry = json_pack("{s:s, s:o, s:s, s:O}", "type", type, "loc", where, "msg", message, "input", input);

        if (context)
                (void)json_object_set_new(entry, "ctx", context);
        if (!f->list)
                f->list = json_array();
        (void)json_array_append_new(f->list, entry);
}

static json_t *at_body(void)
{
        return json_pack("[s]", "body");
}

static json_t *at_field(const char *field)
{
        return json_pack("[s, s]", "body", field);
}

/* ---- fields ---- */

static const json_t *present(const json_t *body, const char *field) /* NULL: absent or null */
{
        const json_t *value = json_object_get(body, field);

        return json_is_null(value) ? NULL : value;
}

/* A string that is not empty, or NULL.  NUL cannot be part of a name or a path. */
static const char *take_text(json_t *body, const char *field, struct faults *f)
{
        json_t *value = (json_t *)(uintptr_t)present(body, field);

        if (!value)
                return NULL;
        if (!json_is_string(value)) {
                fault_add(f, "string_type", at_field(field), "Input should be a valid string", value, NULL);
                return NULL;
        }
        if (strlen(json_string_value(value)) != json_string_length(value)) {
                fault_add(f, "value_error", at_field(field), "Value error, a NUL is not allowed here", value,
                          json_pack("{s:{}}", "error"));
                return NULL;
        }
        return json_string_length(value) ? json_string_value(value) : NULL;
}

static void take_code(json_t *body, struct execute_request *ret, struct faults *f)
{
        json_t *value = json_object_get(body, "code");

        if (!value)
                fault_add(f, "missing", at_field("code"), "Field required", body, NULL);
        else if (!json_is_string(value))
                fault_add(f, "string_type", at_field("code"), "Input should be a valid string", value, NULL);
        else
                ret->code = (struct str){json_string_value(value), json_string_length(value)};
}

static void check_variable(const char *name, json_t *value, struct faults *f)
{
        json_t *where = json_pack("[s, s, s]", "body", "env_vars", name);
        struct str text = {json_string_value(value), json_string_length(value)};

        if (!json_is_string(value))
                fault_add(f, "string_type", where, "Input should be a valid string", value, NULL);
        else if (!variable_is_valid(str_of(name), text))
                fault_add(f, "value_error", where,
                          "Value error, a variable needs a name without '=', and a value without NUL", value,
                          json_pack("{s:{}}", "error"));
        else
                json_decref(where);
}

static size_t bytes_of(json_t *object)
{
        size_t bytes = 0;
        const char *name;
        json_t *value;

        json_object_foreach (object, name, value)
                bytes += strlen(name) + json_string_length(value);
        return bytes;
}

static void take_variables(json_t *body, struct execute_request *ret, struct faults *f)
{
        json_t *object = json_object_get(body, "env_vars"), *value;
        const char *name;

        if (!object || json_is_null(object))
                return;
        if (!json_is_object(object)) {
                fault_add(f, "dict_type", at_field("env_vars"), "Input should be a valid dictionary", object, NULL);
                return;
        }
        json_object_foreach (object, name, value)
                check_variable(name, value, f);
        if (bytes_of(object) > VARIABLES_BYTES_MAX)
                fault_add(f, "value_error", at_field("env_vars"), "Value error, more than 4 MiB of variables",
                          json_null(), json_pack("{s:{}}", "error"));
        ret->variables = json_object_size(object) ? object : NULL;
}

/* ---- bodies ---- */

static json_t *load(struct str body, struct faults *f)
{
        json_error_t why = {0};
        json_t *value;

        if (body.n == 0) {
                json_t *none = json_null();

                fault_add(f, "missing", at_body(), "Field required", none, NULL);
                return NULL;
        }
        value = json_loadb(body.p, body.n, JSON_ALLOW_NUL | JSON_DECODE_ANY, &why);
        if (!value) {
                json_t *empty = json_object();

                fault_add(f, "json_invalid", json_pack("[s, i]", "body", why.position), "JSON decode error", empty,
                          json_pack("{s:s}", "error", why.text));
                json_decref(empty);
                return NULL;
        }
        if (!json_is_object(value)) {
                fault_add(f, "model_attributes_type", at_body(),
                          "Input should be a valid dictionary or object to extract fields from", value, NULL);
                json_decref(value);
                return NULL;
        }
        return value;
}

static int finish(struct faults *f, json_t **ret_detail)
{
        if (!f->list)
                return 0;
        *ret_detail = json_pack("{s:o}", "detail", f->list);
        return -EINVAL;
}

int execute_request_decode(struct str body, struct execute_request *ret, json_t **ret_detail)
{
        struct faults f = {0};
        struct execute_request rq = {.body = load(body, &f)};

        if (rq.body) {
                take_code(rq.body, &rq, &f);
                rq.context_id = take_text(rq.body, "context_id", &f);
                rq.language = take_text(rq.body, "language", &f);
                take_variables(rq.body, &rq, &f);
        }
        if (finish(&f, ret_detail) < 0) {
                execute_request_done(&rq);
                return -EINVAL;
        }
        *ret = rq;
        return 0;
}

void execute_request_done(struct execute_request *rq)
{
        json_decref(rq->body);
        *rq = (struct execute_request){0};
}

int context_request_decode(struct str body, struct context_request *ret, json_t **ret_detail)
{
        struct faults f = {0};
        struct context_request rq = {.body = load(body, &f)};

        if (rq.body) {
                rq.language = take_text(rq.body, "language", &f);
                rq.cwd = take_text(rq.body, "cwd", &f);
        }
        if (finish(&f, ret_detail) < 0) {
                context_request_done(&rq);
                return -EINVAL;
        }
        *ret = rq;
        return 0;
}

void context_request_done(struct context_request *rq)
{
        json_decref(rq->body);
        *rq = (struct context_request){0};
}
