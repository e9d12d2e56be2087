#include "cli/api.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "cli/conf.h"
#include "cli/patience.h"
#include "wire/url.h"

#define LIST_PAGES_MAX 1000
#define TARGET_MAX 1024
#define CALL_MS 120000u
#define FIRST_USE_MS 900000u /* how long a template may take to be built for its first use */

int api_open(struct cli_api *a, const char *data_dir, struct err *err)
{
        struct sg_error why = {0};
        int r;

        *a = (struct cli_api){.patience_ms = CALL_MS, .cancel_fd = -1};
        r = cli_conf(data_dir, &a->env, err);
        if (r < 0)
                return r;
        /* A person waits: what fails is told at once. */
        r = sg_client_open(
                &(struct sg_client_options){.api_key = a->env.api_key,
                                            .api_url = a->env.api_url,
                                            .sandbox_url = a->env.sandbox_url ? a->env.sandbox_url : a->env.api_url,
                                            .user_agent = "sandglass",
                                            .retries = SG_NO_RETRIES},
                &a->client, &why);
        if (r < 0) {
                r = api_error(a, &why, err);
                api_close(a);
        }
        return r;
}

void api_close(struct cli_api *a)
{
        sg_cancel_free(a->cancel);
        sg_client_free(a->client);
        envfile_done(&a->env);
        *a = (struct cli_api){0};
}

int api_cancel_on(struct cli_api *a, int fd, struct err *err)
{
        struct sg_error why = {0};

        sg_cancel_free(a->cancel);
        a->cancel = NULL;
        a->cancel_fd = fd;
        return fd >= 0 && sg_cancel_create_fd(fd, &a->cancel, &why) < 0 ? api_error(a, &why, err) : 0;
}

void api_set_patience(struct cli_api *a, unsigned ms)
{
        a->patience_ms = ms ? ms : CALL_MS;
}

struct sg_call api_wait(const struct cli_api *a, uint32_t timeout_ms)
{
        return (struct sg_call){.timeout_ms = timeout_ms,
                                .cancel = a->cancel,
                                .on_tick = a->on_tick,
                                .tick_arg = a->tick_arg,
                                .tick_ms = a->tick_ms};
}

/* ---- what went wrong ---- */

static enum err_kind kind_of(enum sg_error_kind kind)
{
        static const enum err_kind kinds[] = {
                [SG_OK] = ERR_NONE,
                [SG_INVALID] = ERR_INVALID,
                [SG_NOT_FOUND] = ERR_NOT_FOUND,
                [SG_CONFLICT] = ERR_CONFLICT,
                [SG_LIMIT] = ERR_LIMIT,
                [SG_NO_SPACE] = ERR_NO_SPACE,
                [SG_TOO_LARGE] = ERR_TOO_LARGE,
                [SG_DENIED] = ERR_DENIED,
                [SG_TIMEOUT] = ERR_TIMEOUT,
                [SG_UNAVAILABLE] = ERR_UNAVAILABLE,
                [SG_CANCELLED] = ERR_INTERRUPTED,
                [SG_UNSUPPORTED] = ERR_UNAVAILABLE,
                [SG_INTERNAL] = ERR_INTERNAL,
        };

        return kinds[kind];
}

/* "host:port" of a URL. */
static const char *host_of(const char *url)
{
        const char *host = url ? strstr(url, "://") : NULL;

        return host ? host + 3 : "";
}

int api_error(const struct cli_api *a, const struct sg_error *why, struct err *err)
{
        int r;

        if (why->system_error == ECONNREFUSED)
                return err_set(err, ERR_UNAVAILABLE, "no server answers at %s: is `sandglass serve` running?",
                               host_of(a->env.api_url));
        r = err_set(err, kind_of(why->kind), "%s", why->message);
        err->sys = why->kind == SG_CANCELLED ? EINTR : why->system_error;
        return err->sys ? -err->sys : r;
}

int api_refused(const struct cli_api *a, const struct sg_error *why, struct err *err)
{
        if (why->http_status == 401)
                return err_set(
                        err, ERR_DENIED,
                        "the server at %s does not know this API key: source its env file again, or name its data "
                        "directory with --data",
                        host_of(a->env.api_url));
        return api_error(a, why, err);
}

/* ---- requests ---- */

/* The answer as JSON into *ret, which may be NULL. */
static int take_answer(const struct sg_answer *answer, json_t **ret, struct err *err)
{
        json_t *got = answer->body_len ? json_loadb(answer->body, answer->body_len, 0, NULL) : json_object();

        if (!got)
                return err_set(err, ERR_INTERNAL, "the server's answer is not JSON");
        if (ret)
                *ret = got;
        else
                json_decref(got);
        return 0;
}

int api_send(struct cli_api *a, const char *method, const char *target, const char *body,
             const struct sg_request_options *more, struct sg_answer **ret, struct err *err)
{
        const struct sg_pair headers[] = {{a->team ? "X-Team-ID" : NULL, a->team}, {NULL, NULL}};
        struct sg_request_options o = more ? *more : (struct sg_request_options){0};
        const struct sg_call call = api_wait(a, a->patience_ms);
        struct sg_error why = {0};
        int r;

        if (!o.headers)
                o.headers = headers;
        do {
                r = sg_request(a->client, method, target, body, &o, &call, ret, &why);
        } while (r < 0 && a->again && patience_wait(a->again, &why));
        return r < 0 ? api_refused(a, &why, err) : 0;
}

/* One request with JSON both ways; *ret (may be NULL) is the caller's. */
static int api_call(struct cli_api *a, const char *method, const char *target, json_t *body, json_t **ret,
                    char next[512], struct err *err)
{
        AUTO_FREE char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
        struct sg_answer *answer = NULL;
        int r = api_send(a, method, target, text, NULL, &answer, err);

        if (r < 0)
                return r;
        if (next && snprintf(next, 512, "%s", answer->next_token) >= 512)
                r = err_set(err, ERR_INTERNAL, "the server's page token is too long");
        if (r == 0)
                r = take_answer(answer, ret, err);
        sg_free(answer);
        return r;
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
        const char *traffic = json_string_value(json_object_get(obj, "trafficAccessToken"));
        const char *state = json_string_value(json_object_get(obj, "state"));
        const char *end = json_string_value(json_object_get(obj, "endAt"));

        if (!id || !sandbox_id_is_valid(str_of(id)) || (token && strlen(token) >= sizeof(ret->token)) ||
            (traffic && strlen(traffic) >= sizeof(ret->traffic_token)))
                return err_set(err, ERR_INTERNAL, "the server's answer does not describe a sandbox");
        (void)snprintf(ret->id, sizeof(ret->id), "%s", id);
        (void)snprintf(ret->token, sizeof(ret->token), "%s", token ? token : "");
        (void)snprintf(ret->traffic_token, sizeof(ret->traffic_token), "%s", traffic ? traffic : "");
        ret->is_private =
                traffic || json_is_false(json_object_get(json_object_get(obj, "network"), "allowPublicTraffic"));
        ret->is_paused = state && strcmp(state, "paused") == 0;
        if (end)
                (void)clock_parse(str_of(end), &ret->end_ns);
        return 0;
}

int api_create(struct cli_api *a, const struct api_create *rq, struct api_sandbox *ret, struct err *err)
{
        json_t *body = json_pack("{s:s}", "templateID", rq->template), *got = NULL;
        struct patience again = {.who = "sandglass",
                                 .deadline_ms = clock_mono_ms() + FIRST_USE_MS,
                                 .cancel_fd = a->cancel_fd,
                                 .clears_line = a->on_tick != NULL};
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
        a->again = &again;
        r = api_call(a, "POST", "/v2/sandboxes", body, &got, NULL, err);
        a->again = NULL;
        json_decref(body);
        if (r == 0)
                r = take_sandbox(got, ret, err);
        json_decref(got);
        return r;
}

int api_box(struct cli_api *a, const struct api_sandbox *sandbox, struct sg_sandbox **ret, struct err *err)
{
        const struct sg_identity who = {
                .id = sandbox->id, .access_token = sandbox->token, .traffic_token = sandbox->traffic_token};
        struct sg_error why = {0};

        return sg_sandbox_assume(a->client, &who, ret, &why) < 0 ? api_error(a, &why, err) : 0;
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

bool api_explain_loss(struct cli_api *a, const struct api_sandbox *was, const char *what, struct err *err)
{
        struct api_sandbox now = {0};
        struct err why = {0};

        if (api_get(a, was->id, &now, &why) == 0) {
                if (!now.is_paused)
                        return false;
                (void)err_set(err, ERR_CONFLICT, "sandbox %s was paused: `sandglass resume %s` lets it run again",
                              was->id, was->id);
                return true;
        }
        if (why.kind != ERR_NOT_FOUND)
                return false;
        if (was->end_ns && clock_real_ns() >= was->end_ns)
                (void)err_set(err, ERR_NOT_FOUND, "the time of sandbox %s was up, which ended %s", was->id, what);
        else
                (void)err_set(err, ERR_NOT_FOUND, "sandbox %s was killed, which ended %s", was->id, what);
        return false;
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
