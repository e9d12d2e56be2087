#include "envd/endpoints.h"

#include "envd/envd.h"
#include "envd/rpc/answer.h"
#include "envd/rpc/auth.h"
#include "envd/rpc/field.h"
#include "envd/sandbox/environ_file.h"
#include "http/server.h"
#include "model/envd_init.h"
#include "model/ids.h"

void endpoint_health(struct envd *e, struct http_request *rq)
{
        (void)e;
        answer_no_content(rq, NULL, NULL);
}

void endpoint_envs(struct envd *e, struct http_request *rq)
{
        answer_json(rq, 200, settings_env(&e->context.settings));
}

void endpoint_metrics(struct envd *e, struct http_request *rq)
{
        e->metrics.memory_max_bytes = (uint64_t)e->context.settings.memory_mb << 20;
        answer_json(rq, 200, metrics_read(&e->metrics));
}

/* The caller has the token in the header, or sets the same token again in the body. */
static bool init_is_authorised(const struct settings *s, const struct http_request *rq, const json_t *in)
{
        const char *again = json_string_value(field_get(in, "accessToken"));

        return auth_token_is_valid(s, rq->head) || (again && str_eq_secret(str_of(again), str_of(s->token)));
}

/* The sandbox was resumed from a checkpoint.  It may be a copy, so connections of the time before are cut, and its
 * name and its memory may be others. */
static void adjust_after_resume(struct envd *e, const struct http_request *rq)
{
        http_server_cut_others(rq);
        replay_pool_limit(&e->processes.pool, (uint64_t)e->context.settings.memory_mb << 20);
        if (e->is_cell) {
                identity_files_update(&e->identity_files, &e->context.settings);
                environ_file_update(&e->context.settings);
        }
}

static int apply_init(struct envd *e, const struct http_request *rq, const json_t *in, struct fault *f)
{
        bool is_resumed = false;

        if (json_is_object(in) && field_bool(in, "resumed", &is_resumed, f) < 0)
                return -1;
        if (settings_apply(&e->context.settings, in, f) < 0)
                return -1;
        if (is_resumed)
                adjust_after_resume(e, rq);
        return 0;
}

static void on_init_body(struct http_request *rq, struct str body)
{
        struct envd *e = rq->user;
        AUTO_FAULT struct fault f = {0};
        json_error_t why = {0};
        json_t *in = body.n ? json_loadb(body.p, body.n, JSON_REJECT_DUPLICATES, &why) : json_object();

        if (!in)
                answer_error(rq, 400, "invalid JSON at byte %d: %s", why.position, why.text);
        else if (!init_is_authorised(&e->context.settings, rq, in))
                answer_text(rq, 401, "access token validation failed");
        else if (apply_init(e, rq, in, &f) < 0)
                answer_error(rq, connect_code_http(f.code), "%s", fault_text(&f));
        else
                answer_no_content(rq, "X-Envd-Version", ENVD_VERSION);
        json_decref(in);
}

void endpoint_init(struct envd *e, struct http_request *rq)
{
        rq->user = e;
        http_read_body(rq, ENVD_INIT_MAX, on_init_body);
}
