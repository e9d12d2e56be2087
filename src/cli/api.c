#include "cli/api.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "cli/conf.h"
#include "io/tls.h"
#include "wire/url.h"

#define LIST_PAGES_MAX 1000
#define TARGET_MAX 1024
#define CALL_MS 120000u
#define ANSWER_MAX (16u << 20)

int api_open(struct cli_api *a, const char *data_dir, struct err *err)
{
        int r;

        *a = (struct cli_api){0};
        r = cli_conf(data_dir, &a->env, err);
        if (r == 0)
                r = api_client(a, a->env.api_url, NULL, &a->control, err);
        if (r == 0)
                api_set_patience(a, 0);
        else
                api_close(a);
        return r;
}

void api_close(struct cli_api *a)
{
        envfile_done(&a->env);
        a->control = http_client_free(a->control);
        a->tls = tls_context_free(a->tls);
}

int api_client(struct cli_api *a, const char *url, struct loop *loop, struct http_client **ret, struct err *err)
{
        const struct http_timeouts patient = {.idle_ms = HTTP_NO_TIMEOUT};
        int r = 0;

        if (!a->tls && str_starts(str_of(url), "https://"))
                r = tls_client_context_create(NULL, &a->tls, err);
        if (r < 0)
                return r;
        return http_client_create(
                &(struct http_client_options){.loop = loop, .url = url, .tls = a->tls, .timeouts = patient}, ret, err);
}

void api_explain_refused(const struct http_client *client, struct err *err)
{
        if (err->sys == ECONNREFUSED)
                (void)err_set(err, ERR_UNAVAILABLE, "no server answers at %s: is `sandglass serve` running?",
                              http_client_host(client));
}

void api_set_patience(struct cli_api *a, unsigned ms)
{
        http_client_set_timeouts(a->control,
                                 &(struct http_timeouts){.idle_ms = HTTP_NO_TIMEOUT, .total_ms = ms ? ms : CALL_MS});
}

/* What went wrong, as the server explains it. */
static int api_refused(const struct cli_api *a, unsigned status, const json_t *body, struct err *err)
{
        const char *message = json_string_value(json_object_get(body, "message"));
        enum err_kind kind = status == 404                    ? ERR_NOT_FOUND
                             : status == 401 || status == 403 ? ERR_DENIED
                             : status == 429                  ? ERR_LIMIT
                             : status >= 400 && status < 500  ? ERR_INVALID
                                                              : ERR_INTERNAL;

        if (status == 401)
                return err_set(
                        err, kind,
                        "the server at %s does not know this API key: source its env file again, or name its data "
                        "directory with --data",
                        http_client_host(a->control));
        return err_set(err, kind, "%s", message ? message : http1_reason(status));
}

/* The token of the next page, "" when there is none; next (may be NULL) has 512 bytes. */
static int take_next(const struct http1_head *head, char *next, struct err *err)
{
        struct str token = http1_value(head, "X-Next-Token");

        if (token.n >= 512)
                return err_set(err, ERR_INTERNAL, "the server's page token is too long");
        if (next) {
                memcpy(next, token.p, token.n);
                next[token.n] = 0;
        }
        return 0;
}

/* The answer as JSON into *ret, which may be NULL. */
static int take_answer(const struct cli_api *a, const struct http_answer *answer, json_t **ret, struct err *err)
{
        unsigned status = answer->head.status;
        json_t *got = answer->body.len ? json_loadb((const char *)buf_at(&answer->body), answer->body.len, 0, NULL)
                                       : json_object();
        int r = 0;

        if (status < 200 || status > 299)
                r = api_refused(a, status, got, err);
        else if (!got)
                r = err_set(err, ERR_INTERNAL, "the server's answer is not JSON");
        if (r == 0 && ret)
                *ret = json_incref(got);
        json_decref(got);
        return r;
}

/* One request with JSON both ways; *ret (may be NULL) is the caller's. */
static int api_call(struct cli_api *a, const char *method, const char *target, json_t *body, json_t **ret,
                    char next[512], struct err *err)
{
        const struct http_header headers[] = {
                {"X-API-Key", a->env.api_key}, {a->team ? "X-Team-ID" : NULL, a->team}, {NULL, NULL}};
        AUTO_FREE char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
        AUTO(http_answer_done) struct http_answer answer = {0};
        const struct http_call_options call = {.method = method,
                                               .target = target,
                                               .headers = headers,
                                               .content_type = text ? "application/json" : NULL,
                                               .body = str_of(text)};
        int r;

        r = http_client_run(a->control, &call, ANSWER_MAX, &answer, err);
        if (r < 0) {
                api_explain_refused(a->control, err);
                return r;
        }
        r = take_next(&answer.head, next, err);
        return r < 0 ? r : take_answer(a, &answer, ret, err);
}

int api_request(struct cli_api *a, const char *method, const char *target, json_t *body, json_t **ret, struct err *err)
{
        return api_call(a, method, target, body, ret, NULL, err);
}

char *api_target(const char *before, const char *name, const char *after)
{
        AUTO_BUF struct buf out = BUF_INIT(64u << 10);

        if (buf_addc(&out, before) < 0 || url_encode(str_of(name), &out) < 0 || buf_addc(&out, after) < 0)
                return NULL;
        return str_dup((struct str){(const char *)buf_at(&out), out.len});
}

static int take_sandbox(const json_t *obj, struct api_sandbox *ret, struct err *err)
{
        const char *id = json_string_value(json_object_get(obj, "sandboxID"));
        const char *token = json_string_value(json_object_get(obj, "envdAccessToken"));
        const char *state = json_string_value(json_object_get(obj, "state"));
        const char *end = json_string_value(json_object_get(obj, "endAt"));

        if (!id || !sandbox_id_is_valid(str_of(id)) || (token && strlen(token) >= sizeof(ret->token)))
                return err_set(err, ERR_INTERNAL, "the server's answer does not describe a sandbox");
        (void)snprintf(ret->id, sizeof(ret->id), "%s", id);
        (void)snprintf(ret->token, sizeof(ret->token), "%s", token ? token : "");
        ret->is_paused = state && strcmp(state, "paused") == 0;
        if (end)
                (void)clock_parse(str_of(end), &ret->end_ns);
        return 0;
}

int api_create(struct cli_api *a, const struct api_create *rq, struct api_sandbox *ret, struct err *err)
{
        json_t *body = json_pack("{s:s}", "templateID", rq->template), *got = NULL;
        int r;

        if (!body)
                return err_set(err, ERR_INVALID, "the template's name is not valid text");
        if (rq->timeout_s)
                (void)json_object_set_new(body, "timeout", json_integer(rq->timeout_s));
        if (rq->env && json_object_size(rq->env))
                (void)json_object_set(body, "envVars", rq->env);
        if (rq->metadata && json_object_size(rq->metadata))
                (void)json_object_set(body, "metadata", rq->metadata);
        *ret = (struct api_sandbox){.end_ns =
                                            rq->timeout_s ? clock_real_ns() + rq->timeout_s * INT64_C(1000000000) : 0};
        r = api_call(a, "POST", "/v2/sandboxes", body, &got, NULL, err);
        json_decref(body);
        if (r == 0)
                r = take_sandbox(got, ret, err);
        json_decref(got);
        return r;
}

static int sandbox_target(const char *id, char out[TARGET_MAX], struct err *err)
{
        if (!sandbox_id_is_valid(str_of(id)))
                return err_set(err, ERR_INVALID, "'%s' is not a sandbox id", id);
        (void)snprintf(out, TARGET_MAX, "/sandboxes/%s", id);
        return 0;
}

int api_get(struct cli_api *a, const char *id, struct api_sandbox *ret, struct err *err)
{
        char target[TARGET_MAX];
        json_t *got = NULL;
        int r;

        r = sandbox_target(id, target, err);
        if (r == 0)
                r = api_call(a, "GET", target, NULL, &got, NULL, err);
        if (r == 0)
                r = take_sandbox(got, ret, err);
        json_decref(got);
        return r;
}

int api_delete(struct cli_api *a, const char *id, struct err *err)
{
        char target[TARGET_MAX];
        int r = sandbox_target(id, target, err);

        return r < 0 ? r : api_call(a, "DELETE", target, NULL, NULL, NULL, err);
}

/* ERR_INTERNAL: what is at `query` comes in pages, and one of them is no list. */
static int list_page(struct cli_api *a, const char *query, char next[512], json_t *all, struct err *err)
{
        AUTO_BUF struct buf target = BUF_INIT(4096);
        json_t *page = NULL;
        int r;

        r = buf_addc(&target, query);
        if (r == 0 && next[0]) {
                r = buf_addc(&target, "&nextToken=");
                if (r == 0)
                        r = url_encode(str_of(next), &target);
        }
        if (r < 0 || !buf_cstr(&target))
                return err_set(err, ERR_LIMIT, "out of memory");
        r = api_call(a, "GET", buf_cstr(&target), NULL, &page, next, err);
        if (r == 0 && json_array_extend(all, page) < 0)
                r = err_set(err, ERR_INTERNAL, "the server's answer is not a list");
        json_decref(page);
        return r;
}

int api_list_all(struct cli_api *a, const char *query, json_t **ret_array, struct err *err)
{
        json_t *all = json_array();
        char next[512] = "";
        int r, pages = 0;

        do {
                r = list_page(a, query, next, all, err);
        } while (r == 0 && next[0] && ++pages < LIST_PAGES_MAX);
        if (r < 0)
                json_decref(all);
        else
                *ret_array = all;
        return r;
}

int api_list(struct cli_api *a, json_t **ret_array, struct err *err)
{
        return api_list_all(a, "/v2/sandboxes?state=running,paused&limit=100", ret_array, err);
}

int api_act(struct cli_api *a, const struct api_act *act, json_t **ret, struct err *err)
{
        char target[TARGET_MAX];
        int r = -1;

        if (!act->body)
                (void)err_set(err, ERR_INVALID, "the name is not valid text");
        else if (!sandbox_id_is_valid(str_of(act->id)))
                (void)err_set(err, ERR_INVALID, "'%s' is not a sandbox id", act->id);
        else {
                (void)snprintf(target, sizeof(target), "%s/sandboxes/%s/%s", act->prefix, act->id, act->action);
                r = api_call(a, "POST", target, act->body, ret, NULL, err);
        }
        json_decref(act->body);
        return r;
}

int api_snapshots(struct cli_api *a, const char *sandbox_id, json_t **ret_array, struct err *err)
{
        char query[TARGET_MAX] = "/snapshots?limit=100";

        if (sandbox_id && !sandbox_id_is_valid(str_of(sandbox_id)))
                return err_set(err, ERR_INVALID, "'%s' is not a sandbox id", sandbox_id);
        if (sandbox_id)
                (void)snprintf(query, sizeof(query), "/snapshots?limit=100&sandboxID=%s", sandbox_id);
        return api_list_all(a, query, ret_array, err);
}

int api_snapshot_delete(struct cli_api *a, const char *snapshot, struct err *err)
{
        AUTO_BUF struct buf target = BUF_INIT(4096);
        int r = buf_addc(&target, "/templates/");

        if (r == 0)
                r = url_encode(str_of(snapshot), &target);
        if (r < 0 || !buf_cstr(&target))
                return err_set(err, ERR_INVALID, "'%.64s' is too long for a snapshot's name", snapshot);
        return api_call(a, "DELETE", buf_cstr(&target), NULL, NULL, NULL, err);
}

int api_lost(struct cli_api *a, json_t **ret_array, struct err *err)
{
        json_t *all = json_array(), *page = NULL;
        char target[TARGET_MAX] = "/sandglass/lost";
        bool has_more = true;
        int r = 0;

        for (int pages = 0; r == 0 && has_more && pages < LIST_PAGES_MAX; pages++) {
                r = api_call(a, "GET", target, NULL, &page, NULL, err);
                if (r == 0 && json_array_extend(all, json_object_get(page, "lost")) < 0)
                        r = err_set(err, ERR_INTERNAL, "the server's answer is not a list");
                has_more = r == 0 && json_is_true(json_object_get(page, "more")) && json_array_size(all) > 0;
                if (has_more)
                        (void)snprintf(target, sizeof(target), "/sandglass/lost?after=%.32s",
                                       json_string_value(
                                               json_object_get(json_array_get(all, json_array_size(all) - 1), "id")));
                json_decref(page);
                page = NULL;
        }
        if (r < 0)
                json_decref(all);
        else
                *ret_array = all;
        return r;
}

static int lost_target(const char *id, const char *action, char out[TARGET_MAX], struct err *err)
{
        struct str s = str_of(id);

        if (!sandbox_id_is_valid(s) && !checkpoint_id_is_valid(s) && !sealed_id_is_valid(s))
                return err_set(err, ERR_INVALID, "'%s' is not the id of a sandbox, checkpoint or layer", id);
        (void)snprintf(out, TARGET_MAX, "/sandglass/lost/%s%s", id, action);
        return 0;
}

int api_lost_restore(struct cli_api *a, const char *id, json_t **ret, struct err *err)
{
        char target[TARGET_MAX];
        int r = lost_target(id, "/restore", target, err);

        return r < 0 ? r : api_call(a, "POST", target, NULL, ret, NULL, err);
}

int api_lost_remove(struct cli_api *a, const char *id, struct err *err)
{
        char target[TARGET_MAX];
        int r = lost_target(id, "", target, err);

        return r < 0 ? r : api_call(a, "DELETE", target, NULL, NULL, NULL, err);
}

int api_df(struct cli_api *a, json_t **ret, struct err *err)
{
        return api_call(a, "GET", "/sandglass/df", NULL, ret, NULL, err);
}

int api_keys(struct cli_api *a, json_t **ret_array, struct err *err)
{
        json_t *list = NULL;
        int r = api_call(a, "GET", "/api-keys", NULL, &list, NULL, err);

        if (r == 0 && !json_is_array(list)) {
                json_decref(list);
                return err_set(err, ERR_INTERNAL, "the server's answer is not a list");
        }
        if (r == 0)
                *ret_array = list;
        return r;
}

int api_key_create(struct cli_api *a, const char *name, json_t **ret, struct err *err)
{
        json_t *body = json_pack("{s:s}", "name", name);
        int r = body ? api_call(a, "POST", "/api-keys", body, ret, NULL, err)
                     : err_set(err, ERR_INVALID, "the name is not valid text");

        json_decref(body);
        return r;
}

int api_key_revoke(struct cli_api *a, const char *id, struct err *err)
{
        AUTO_BUF struct buf target = BUF_INIT(TARGET_MAX);
        int r = buf_addc(&target, "/api-keys/");

        if (r == 0)
                r = url_encode(str_of(id), &target);
        if (r < 0 || !buf_cstr(&target))
                return err_set(err, ERR_INVALID, "'%.64s' is too long for a key's id", id);
        return api_call(a, "DELETE", buf_cstr(&target), NULL, NULL, NULL, err);
}

/* ---- images ---- */

int api_images(struct cli_api *a, json_t **ret_array, struct err *err)
{
        return api_call(a, "GET", "/sandglass/images", NULL, ret_array, NULL, err);
}

int api_image_remove(struct cli_api *a, const char *image, struct err *err)
{
        AUTO_BUF struct buf target = BUF_INIT(TARGET_MAX);

        if (buf_addc(&target, "/sandglass/images/") < 0 || url_encode(str_of(image), &target) < 0 || !buf_cstr(&target))
                return err_set(err, ERR_INVALID, "the name of the image is too long");
        return api_call(a, "DELETE", buf_cstr(&target), NULL, NULL, NULL, err);
}
