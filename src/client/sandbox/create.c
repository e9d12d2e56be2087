/* Sandboxes are created, connected to, opened, copied. */
#include "client/sandbox/rest.h"
#include "client/sandbox/box.h"

#define NAME_MAX_BYTES 512u
#define START_MS 120000u /* a template may have to be fetched or restored first */
#define TIMEOUT_MAX_S (366u * 24 * 3600)
#define FORKS_MAX 100u

/* ---- create ---- */

static json_t *pairs_json(const struct sg_pair *pairs)
{
        json_t *obj = json_object();

        for (; pairs && pairs->name; pairs++)
                if (json_object_set_new(obj, pairs->name, json_string(pairs->value)) < 0) {
                        json_decref(obj);
                        return NULL;
                }
        return obj;
}

/* The fields of a JSON object of the caller; *ret is the caller's. */
static int parse_object(const char *text, const char *what, json_t **ret, struct sg_error *err)
{
        json_error_t why;
        json_t *obj = json_loads(text, JSON_REJECT_DUPLICATES, &why);

        if (json_is_object(obj)) {
                *ret = obj;
                return 0;
        }
        if (obj) {
                json_decref(obj);
                return error_set(err, SG_INVALID, "%s is no JSON object", what);
        }
        return error_set(err, SG_INVALID, "%s is no JSON: %s", what, why.text);
}

static int set(json_t *body, const char *key, json_t *value /* stolen */)
{
        return json_object_set_new(body, key, value);
}

static int set_toggle(json_t *body, const char *key, enum sg_toggle t)
{
        return t == SG_DEFAULT ? 0 : set(body, key, json_boolean(t == SG_YES));
}

static int add_options(json_t *body, const struct sg_create_options *o)
{
        int r = set(body, "templateID", json_string(o->template_name ? o->template_name : "base"));

        if (o->timeout_s)
                r |= set(body, "timeout", json_integer(o->timeout_s));
        if (o->env && o->env->name)
                r |= set(body, "envVars", pairs_json(o->env));
        if (o->metadata && o->metadata->name)
                r |= set(body, "metadata", pairs_json(o->metadata));
        r |= set_toggle(body, "autoPause", o->pauses_at_end);
        r |= set_toggle(body, "autoPauseMemory", o->keeps_memory);
        r |= set_toggle(body, "secure", o->secure);
        r |= set_toggle(body, "allow_internet_access", o->internet);
        if (o->resumes_on_request != SG_DEFAULT)
                r |= set(body, "autoResume", json_pack("{s:b}", "enabled", o->resumes_on_request == SG_YES));
        return r;
}

static int check_create(const struct sg_create_options *o, struct sg_error *err)
{
        int r = check_reserved(o->reserved, ARRAY_LEN(o->reserved), err);

        if (r == 0 && o->template_name)
                r = check_text(o->template_name, "the template's name", NAME_MAX_BYTES, err);
        if (r == 0)
                r = check_pairs(o->env, "env", err);
        if (r == 0)
                r = check_pairs(o->metadata, "metadata", err);
        if (r == 0 && o->timeout_s > TIMEOUT_MAX_S)
                r = error_set(err, SG_INVALID, "timeout_s must not be more than %u", TIMEOUT_MAX_S);
        if (r == 0 && o->keeps_memory == SG_NO && o->pauses_at_end != SG_YES)
                r = error_set(err, SG_INVALID, "keeps_memory needs pauses_at_end");
        return r;
}

static int create_body(const struct sg_create_options *o, json_t **ret, struct sg_error *err)
{
        json_t *body = json_object(), *more = NULL;
        int r = body ? 0 : error_no_memory(err);

        if (r == 0 && add_options(body, o) != 0)
                r = error_no_memory(err);
        if (r == 0 && o->network_json) {
                r = parse_object(o->network_json, "network_json", &more, err);
                if (r == 0 && set(body, "network", more) < 0)
                        r = error_no_memory(err);
                more = NULL;
        }
        if (r == 0 && o->extra_json)
                r = parse_object(o->extra_json, "extra_json", &more, err);
        if (r == 0 && more && json_object_update(body, more) < 0)
                r = error_no_memory(err);
        json_decref(more);
        if (r < 0)
                json_decref(body);
        else
                *ret = body;
        return r;
}

/* A request whose answer is a sandbox; body stolen (NULL: no memory). */
static int run_for_box(struct sg_client *client, struct rest_request a, const struct sg_call *call,
                       struct sg_sandbox **ret, struct sg_error *err)
{
        json_t *got = NULL;
        int r = rest_run(client, &a, call, &got, err);

        if (r == 0)
                r = box_from_json(client, got, ret, err);
        json_decref(got);
        return r;
}

int sg_sandbox_create(struct sg_client *client, const struct sg_create_options *options, const struct sg_call *call,
                      struct sg_sandbox **ret, struct sg_error *err)
{
        static const struct sg_create_options usual;
        const struct sg_create_options *o = options ? options : &usual;
        json_t *body = NULL;
        int r = check_create(o, err);

        if (r == 0)
                r = create_body(o, &body, err);
        if (r < 0)
                return r;
        return run_for_box(
                client,
                (struct rest_request){.method = "POST", .target = "/v2/sandboxes", .body = body, .usual_ms = START_MS},
                call, ret, err);
}

/* ---- connect, open ---- */

static int connect_body(uint32_t timeout_s, json_t **ret, struct sg_error *err)
{
        if (timeout_s > TIMEOUT_MAX_S)
                return error_set(err, SG_INVALID, "timeout_s must not be more than %u", TIMEOUT_MAX_S);
        *ret = json_pack("{s:I}", "timeout", (json_int_t)(timeout_s ? timeout_s : 300));
        return *ret ? 0 : error_no_memory(err);
}

int sg_sandbox_connect(struct sg_client *client, const char *id, uint32_t timeout_s, const struct sg_call *call,
                       struct sg_sandbox **ret, struct sg_error *err)
{
        json_t *body = NULL;
        int r = check_sandbox_id(id, err);

        if (r == 0)
                r = connect_body(timeout_s, &body, err);
        if (r < 0)
                return r;
        return run_for_box(client,
                           (struct rest_request){.method = "POST",
                                                 .target = "/sandboxes/%s/connect",
                                                 .name = id,
                                                 .body = body,
                                                 .repeats = true,
                                                 .usual_ms = START_MS},
                           call, ret, err);
}

int sg_sandbox_open(struct sg_client *client, const char *id, const struct sg_call *call, struct sg_sandbox **ret,
                    struct sg_error *err)
{
        int r = check_sandbox_id(id, err);

        return r < 0 ? r
                     : run_for_box(client,
                                   (struct rest_request){.method = "GET", .target = "/sandboxes/%s", .name = id}, call,
                                   ret, err);
}

/* ---- fork ---- */

static int take_fork(struct sg_client *client, const json_t *item, struct sg_fork *ret)
{
        const json_t *error = json_object_get(item, "error");
        json_int_t code = json_integer_value(json_object_get(error, "code"));
        const char *words = json_string_value(json_object_get(error, "message"));

        if (!error)
                return box_from_json(client, json_object_get(item, "sandbox"), &ret->box, &ret->error);
        (void)error_set(&ret->error, error_kind_of_status((unsigned)code), "%s",
                        words ? words : "the copy could not be made");
        ret->error.http_status = (int)code;
        return 0;
}

int sg_sandbox_fork(struct sg_client *client, const char *id, uint32_t count, uint32_t timeout_s,
                    const struct sg_call *call, struct sg_fork *forks, struct sg_error *err)
{
        struct sg_error why = {0};
        json_t *body, *got = NULL;
        int r = check_sandbox_id(id, err);

        if (r == 0 && (count < 1 || count > FORKS_MAX))
                r = error_set(err, SG_INVALID, "there must be 1 to %u copies", FORKS_MAX);
        if (r == 0 && timeout_s > TIMEOUT_MAX_S)
                r = error_set(err, SG_INVALID, "timeout_s must not be more than %u", TIMEOUT_MAX_S);
        if (r < 0)
                return r;
        body = json_pack("{s:I, s:I}", "count", (json_int_t)count, "timeout",
                         (json_int_t)(timeout_s ? timeout_s : 300));
        if (!body)
                return error_no_memory(err);
        r = rest_run(client,
                     &(struct rest_request){.method = "POST",
                                            .target = "/sandboxes/%s/fork",
                                            .name = id,
                                            .body = body,
                                            .usual_ms = LONG_WORK_MS},
                     call, &got, &why);
        if (r < 0)
                return explain_missing_call(client, id, NULL, "fork", call, &why, err);
        if (json_array_size(got) != count)
                r = error_set(err, SG_INTERNAL, "the server's answer has not %u copies", count);
        for (size_t i = 0; r == 0 && i < count; i++) {
                forks[i] = (struct sg_fork){0};
                (void)take_fork(client, json_array_get(got, i), &forks[i]);
        }
        json_decref(got);
        return r;
}
