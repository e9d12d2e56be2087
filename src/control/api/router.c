#include "control/api/router.h"

#include <stdlib.h>
#include <string.h>

#include "control/access/keys.h"
#include "control/api/api.h"
#include "control/api/handlers.h"
#include "model/build/build_request.h"
#include "model/credential/credential.h"

#define SMALL_MAX (64u << 10)
#define CREDENTIAL_BODY_MAX (512u << 10) /* of a value of 64 KiB, with escapes */
#define CREATE_MAX (1u << 20) /* environment variables go to the sandbox in one message of at most that size */
#define ID_SEGMENT "{sandboxID}"
#define IDS_MAX 2 /* names in braces in a pattern */

#define GET(path, handler)                                                                                             \
        {                                                                                                              \
                "GET", path, handler, BODY_NONE, 0, ACCESS_KEY                                                         \
        }
#define POST(path, handler, body, max)                                                                                 \
        {                                                                                                              \
                "POST", path, handler, BODY_##body, max, ACCESS_KEY                                                    \
        }
#define DELETE(path, handler)                                                                                          \
        {                                                                                                              \
                "DELETE", path, handler, BODY_NONE, 0, ACCESS_KEY                                                      \
        }

static const struct endpoint table[] = {
        {"GET", "/health", handle_health, BODY_NONE, 0, ACCESS_OPEN},

        POST("/sandboxes", handle_create_v1, REQUIRED, CREATE_MAX),
        POST("/v2/sandboxes", handle_create_v2, REQUIRED, CREATE_MAX),
        GET("/sandboxes", handle_list_v1),
        GET("/v2/sandboxes", handle_list_v2),

        GET("/sandboxes/{sandboxID}", handle_get),
        DELETE("/sandboxes/{sandboxID}", handle_kill),
        GET("/sandboxes/{sandboxID}/metrics", handle_metrics),
        POST("/sandboxes/{sandboxID}/timeout", handle_timeout, REQUIRED, SMALL_MAX),
        POST("/sandboxes/{sandboxID}/refreshes", handle_refresh, OPTIONAL, SMALL_MAX),
        POST("/sandboxes/{sandboxID}/connect", handle_connect_v1, REQUIRED, SMALL_MAX),
        POST("/v2/sandboxes/{sandboxID}/connect", handle_connect_v2, OPTIONAL, SMALL_MAX),
        POST("/sandboxes/{sandboxID}/pause", handle_pause, OPTIONAL, SMALL_MAX),
        POST("/sandboxes/{sandboxID}/resume", handle_resume, OPTIONAL, SMALL_MAX),
        POST("/sandboxes/{sandboxID}/fork", handle_fork, OPTIONAL, SMALL_MAX),
        POST("/sandboxes/{sandboxID}/snapshots", handle_snapshot, OPTIONAL, SMALL_MAX),
        POST("/sandboxes/{sandboxID}/rollback", handle_rollback, REQUIRED, SMALL_MAX),

        GET("/snapshots", handle_list_snapshots),

        POST("/v3/templates", handle_request_build, REQUIRED, SMALL_MAX),
        POST("/v2/templates", handle_request_build, REQUIRED, SMALL_MAX),
        GET("/templates", handle_list_templates_v1),
        GET("/v2/templates", handle_list_templates_v2),
        POST("/templates/tags", handle_assign_tags, REQUIRED, SMALL_MAX), /* before {templateID} */
        {"DELETE", "/templates/tags", handle_remove_tags, BODY_REQUIRED, SMALL_MAX, ACCESS_KEY},
        GET("/templates/aliases/{alias}", handle_template_alias),
        GET("/templates/{templateID}", handle_get_template),
        DELETE("/templates/{templateID}", handle_delete_template),
        {"PATCH", "/templates/{templateID}", handle_patch_template_v1, BODY_REQUIRED, SMALL_MAX, ACCESS_KEY},
        {"PATCH", "/v2/templates/{templateID}", handle_patch_template_v2, BODY_REQUIRED, SMALL_MAX, ACCESS_KEY},
        GET("/templates/{templateID}/tags", handle_list_tags),
        POST("/templates/{templateID}/rollback", handle_roll_back_template, OPTIONAL, SMALL_MAX),
        GET("/templates/{templateID}/files/{hash}", handle_file_link),
        {"PUT", "/_upload/{uploadID}", handle_upload, BODY_STREAMED, 0, ACCESS_OPEN},
        POST("/v2/templates/{templateID}/builds/{buildID}", handle_start_build, REQUIRED, BUILD_REQUEST_MAX),
        DELETE("/templates/{templateID}/builds/{buildID}", handle_cancel_build),
        GET("/templates/{templateID}/builds/{buildID}/status", handle_build_status),
        GET("/templates/{templateID}/builds/{buildID}/logs", handle_build_logs),
        {"POST", "/templates", handle_build_v1, BODY_NONE, 0, ACCESS_GONE},
        {"POST", "/templates/{templateID}", handle_build_v1, BODY_NONE, 0, ACCESS_GONE},
        {"POST", "/templates/{templateID}/builds/{buildID}", handle_build_v1, BODY_NONE, 0, ACCESS_GONE},

        {"GET", "/sandglass/ahead", handle_ahead, BODY_NONE, 0, ACCESS_OPERATOR},
        {"GET", "/sandglass/df", handle_df, BODY_NONE, 0, ACCESS_OPERATOR},
        {"GET", "/sandglass/images", handle_list_images, BODY_NONE, 0, ACCESS_OPERATOR},
        {"POST", "/sandglass/images", handle_pull_image, BODY_REQUIRED, SMALL_MAX, ACCESS_OPERATOR},
        {"POST", "/sandglass/images/load", handle_load_image, BODY_STREAMED, 0, ACCESS_OPERATOR},
        {"DELETE", "/sandglass/images/{imageName}", handle_remove_image, BODY_NONE, 0, ACCESS_OPERATOR},

        GET("/sandglass/sandboxes/{sandboxID}/events", handle_events),
        GET("/sandglass/sandboxes/{sandboxID}/end", handle_end),
        GET("/sandglass/sandboxes/ended", handle_list_ended),
        DELETE("/sandglass/snapshots/{snapshotID}", handle_delete_snapshot),
        GET("/sandglass/credentials", handle_list_credentials),
        GET("/sandglass/credentials/{credentialName}", handle_get_credential),
        {"PUT", "/sandglass/credentials/{credentialName}", handle_set_credential, BODY_SECRET, CREDENTIAL_BODY_MAX,
         ACCESS_KEY},
        DELETE("/sandglass/credentials/{credentialName}", handle_remove_credential),

        {"GET", "/sandglass/lost", handle_list_lost, BODY_NONE, 0, ACCESS_OPERATOR},
        {"POST", "/sandglass/lost/{lostID}/restore", handle_restore_lost, BODY_OPTIONAL, SMALL_MAX, ACCESS_OPERATOR},
        {"DELETE", "/sandglass/lost/{lostID}", handle_remove_lost, BODY_NONE, 0, ACCESS_OPERATOR},

        {"GET", "/api-keys", handle_list_keys, BODY_NONE, 0, ACCESS_OPERATOR},
        {"POST", "/api-keys", handle_make_key, BODY_REQUIRED, SMALL_MAX, ACCESS_OPERATOR},
        {"DELETE", "/api-keys/{apiKeyID}", handle_revoke_key, BODY_NONE, 0, ACCESS_OPERATOR},
};

const struct endpoint *router_table(size_t *ret_count)
{
        *ret_count = ARRAY_LEN(table);
        return table;
}

/* ---- matching ---- */

/* ret_ids are the path's segments for the names in braces, empty where the pattern has fewer. */
static bool endpoint_matches(const char *pattern, const struct url *url, struct str ret_ids[IDS_MAX])
{
        struct str rest = str_of(pattern + 1), want, ids[IDS_MAX] = {{"", 0}, {"", 0}};
        bool more = true;
        size_t i = 0, n = 0;

        for (; more; i++) {
                more = str_cut(&rest, '/', &want);
                if (i >= url->segment_count)
                        return false;
                if (str_starts(want, "{") && n < IDS_MAX)
                        ids[n++] = url->segments[i];
                else if (!str_eq(want, url->segments[i]))
                        return false;
        }
        if (i != url->segment_count)
                return false;
        memcpy(ret_ids, ids, sizeof(ids));
        return true;
}

static const struct endpoint *endpoint_find(struct str method, const struct url *url, struct str ret_ids[IDS_MAX],
                                            char allow[64])
{
        allow[0] = 0;
        for (size_t i = 0; i < ARRAY_LEN(table); i++) {
                size_t n = strlen(allow);

                if (!endpoint_matches(table[i].pattern, url, ret_ids))
                        continue;
                if (str_is(method, table[i].method))
                        return &table[i];
                (void)snprintf(allow + n, 64 - n, "%s%s", n ? ", " : "", table[i].method); /* six methods at most */
        }
        return NULL;
}

/* "<id>" or "<id>-<client>": the id is kept. */
static bool take_sandbox_id(struct api_exchange *x, struct str segment)
{
        AUTO_FREE char *text = NULL;
        struct str rest, id;

        if (url_decode_dup(segment, false, &text) < 0)
                return false;
        rest = str_of(text);
        (void)str_cut(&rest, '-', &id);
        if (id.n == 0 || id.n >= sizeof(x->id) || memchr(rest.p, '-', rest.n))
                return false;
        for (size_t i = 0; i < id.n; i++)
                if (!((id.p[i] >= 'a' && id.p[i] <= 'z') || (id.p[i] >= '0' && id.p[i] <= '9')))
                        return false;
        memcpy(x->id, id.p, id.n);
        x->id[id.n] = 0;
        return true;
}

/* ---- the body ---- */

static bool body_is_blank(struct str s)
{
        for (size_t i = 0; i < s.n; i++)
                if (!strchr(" \t\r\n", s.p[i]) || !s.p[i])
                        return false;
        return true;
}

static void request_body_read(struct http_request *rq, struct str body)
{
        struct api_exchange *x = rq->user;
        json_error_t why;

        if (x->endpoint->body == BODY_OPTIONAL && body_is_blank(body)) {
                api_exchange_handle(x);
                return;
        }
        x->body = json_loadb(body.p, body.n, 0, &why);
        if (!x->body && x->endpoint->body == BODY_SECRET) /* jansson's words quote it */
                answer_error(x, 400, NULL, "Error when parsing request: line %d column %d: not JSON", why.line,
                             why.column);
        else if (!x->body)
                answer_error(x, 400, NULL, "Error when parsing request: line %d column %d: %s", why.line, why.column,
                             why.text);
        else if (!json_is_object(x->body))
                answer_error(x, 400, NULL, "Error when parsing request: the body must be a JSON object");
        else
                api_exchange_handle(x);
}

/* ---- one request ---- */

static void request_closed(struct http_request *rq, bool is_complete)
{
        struct api_exchange *x = rq->user;

        api_exchange_leave(x, is_complete);
        if (x->endpoint && x->endpoint->body == BODY_SECRET)
                credential_blank(x->body);
        json_decref(x->body);
        free(x);
}

/* The operator may act for another team.  false: the request is answered. */
static bool request_choose_team(struct api_exchange *x, const struct api_key *key)
{
        const struct http1_header *h = http1_find(x->rq->head, "X-Team-ID");

        if (key->kind != STORE_KEY_OPERATOR) {
                answer_error(x, 403, NULL,
                             "only the operator's key can do this, which is in the file env of the server's data "
                             "directory");
                return false;
        }
        if (h && !(x->team = keys_team_named(x->api->keys, h->value))) {
                answer_error(x, 404, NULL, "there is no team '%.*s'", (int)(h->value.n < 100 ? h->value.n : 100),
                             h->value.p);
                return false;
        }
        return true;
}

/* The team of the request's key.  false: the request is answered. */
static bool request_authenticate(struct api_exchange *x)
{
        const struct http1_header *h = http1_find(x->rq->head, "X-API-Key");
        struct api_key *key;

        if (!h && x->endpoint->access == ACCESS_OPERATOR)
                h = http1_find(x->rq->head, "X-Admin-Token"); /* what the contract calls the operator's key */
        if (!h) {
                answer_error(x, 401, NULL, "authorization header is missing");
                return false;
        }
        if (!key_is_wellformed(h->value)) {
                answer_error(x, 401, NULL, "Invalid API key.\nInvalid API key format");
                return false;
        }
        key = keys_find(x->api->keys, h->value);
        if (!key) {
                answer_error(x, 401, NULL, "Invalid API key.\nCannot get the team for the given API key");
                return false;
        }
        keys_note_use(x->api->keys, key, x->api->now_ns());
        x->team = key->team;
        memcpy(x->key_id, key->id, sizeof(x->key_id));
        return x->endpoint->access != ACCESS_OPERATOR || request_choose_team(x, key);
}

static bool endpoint_needs_key(const struct endpoint *e)
{
        return e->access != ACCESS_OPEN && e->access != ACCESS_GONE;
}

static void request_dispatch(struct api_exchange *x)
{
        struct str method = x->rq->head->method, ids[IDS_MAX] = {{"", 0}, {"", 0}};
        char allow[64];

        x->endpoint = endpoint_find(method, &x->rq->url, ids, allow);
        x->segment = ids[0];
        x->segment2 = ids[1];
        if (!x->endpoint && str_is(method, "OPTIONS")) {
                answer_preflight(x);
        } else if (!x->endpoint && allow[0]) {
                answer_wrong_method(x, allow);
        } else if (!x->endpoint) {
                answer_error(x, 404, NULL, "Unknown route: %.*s %.*s", STR_ARG(method),
                             (int)(x->rq->url.path.n < 200 ? x->rq->url.path.n : 200), x->rq->url.path.p);
        } else if (endpoint_needs_key(x->endpoint) && !request_authenticate(x)) {
                return;
        } else if (strstr(x->endpoint->pattern, ID_SEGMENT) && !take_sandbox_id(x, x->segment)) {
                answer_error(x, 400, NULL, "Invalid sandbox ID");
        } else if (x->endpoint->body == BODY_NONE || x->endpoint->body == BODY_STREAMED) {
                api_exchange_handle(x);
        } else {
                if (x->endpoint->body == BODY_SECRET)
                        http_keep_secret(x->rq);
                http_read_body(x->rq, x->endpoint->body_max, request_body_read);
        }
}

void router_on_request(struct http_request *rq, void *api)
{
        struct api_exchange *x = calloc(1, sizeof(*x));

        if (!x) {
                http_reply_error(rq, 503, "out of memory");
                return;
        }
        x->api = api;
        x->rq = rq;
        rq->user = x;
        rq->on_close = request_closed;
        request_dispatch(x);
}
