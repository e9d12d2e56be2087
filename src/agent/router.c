#include "agent/router.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/api/handlers.h"
#include "agent/exchange/ask.h"
#include "base/auto.h"
#include "wire/json/json_values.h"
#include "wire/url.h"

#define BASE_SEGMENTS 3 /* "api", "v1", "agent" */
#define SMALL_MAX (64u << 10)
#define CREATE_MAX (1u << 20)
#define FILE_MAX (32u << 20)
#define STDIN_MAX (8u << 20)
#define UNKNOWN_MAX (16u << 10) /* of a body that is read before the API has seen the token; not reserved */
#define ID_SEGMENT "{sandbox_id}"
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
        POST("/sandboxes", agent_create_sandbox, OPTIONAL, CREATE_MAX),
        GET("/sandboxes", agent_list_sandboxes),
        GET("/sandboxes/{sandbox_id}", agent_get_sandbox),
        DELETE("/sandboxes/{sandbox_id}", agent_delete_sandbox),
        POST("/sandboxes/{sandbox_id}/timeout", agent_set_timeout, REQUIRED, SMALL_MAX),
        POST("/sandboxes/{sandbox_id}/pause", agent_pause_sandbox, OPTIONAL, SMALL_MAX),
        POST("/sandboxes/{sandbox_id}/resume", agent_resume_sandbox, OPTIONAL, SMALL_MAX),
        POST("/sandboxes/{sandbox_id}/fork", agent_fork_sandbox, OPTIONAL, SMALL_MAX),
        POST("/sandboxes/{sandbox_id}/snapshots", agent_make_snapshot, OPTIONAL, SMALL_MAX),
        GET("/sandboxes/{sandbox_id}/snapshots", agent_list_snapshots),
        GET("/sandboxes/{sandbox_id}/events", agent_watch_events),
        GET("/sandboxes/{sandbox_id}/files", agent_read_file),
        POST("/sandboxes/{sandbox_id}/files", agent_write_file, REQUIRED, FILE_MAX),
        {"PUT", "/sandboxes/{sandbox_id}/files", agent_upload_file, BODY_STREAMED, 0, ACCESS_KEY},
        DELETE("/sandboxes/{sandbox_id}/files", agent_delete_file),
        GET("/sandboxes/{sandbox_id}/files/list", agent_list_files),
        GET("/sandboxes/{sandbox_id}/files/stat", agent_stat_file),
        POST("/sandboxes/{sandbox_id}/files/rename", agent_rename_file, REQUIRED, SMALL_MAX),
        POST("/sandboxes/{sandbox_id}/files/mkdir", agent_make_directory, REQUIRED, SMALL_MAX),
        GET("/sandboxes/{sandbox_id}/files/archive", agent_read_archive),
        {"PUT", "/sandboxes/{sandbox_id}/files/archive", agent_write_archive, BODY_STREAMED, 0, ACCESS_KEY},

        POST("/sandboxes/{sandbox_id}/code", agent_run_code, REQUIRED, FILE_MAX),
        GET("/sandboxes/{sandbox_id}/ports", agent_list_ports),

        GET("/credentials", agent_get_credentials),
        GET("/credentials/{name}", agent_get_credentials),
        {"PUT", "/credentials/{name}", agent_put_credential, BODY_SECRET, CREATE_MAX, ACCESS_KEY},
        DELETE("/credentials/{name}", agent_delete_credential),

        {"GET", "/openapi.json", agent_show_openapi, BODY_NONE, 0, ACCESS_OPEN},
        {"GET", "/docs", agent_show_docs, BODY_NONE, 0, ACCESS_OPEN},

        GET("/snapshots", agent_list_snapshots),
        DELETE("/snapshots/{snapshot_id}", agent_delete_snapshot),

        POST("/sandboxes/{sandbox_id}/commands", agent_run_command, REQUIRED, CREATE_MAX),
        GET("/sandboxes/{sandbox_id}/commands", agent_list_commands),
        GET("/sandboxes/{sandbox_id}/commands/{command_id}", agent_read_command),
        DELETE("/sandboxes/{sandbox_id}/commands/{command_id}", agent_kill_command),
        POST("/sandboxes/{sandbox_id}/commands/{command_id}/stdin", agent_write_stdin, REQUIRED, STDIN_MAX),
};

const struct endpoint *agent_endpoints(size_t *ret_count)
{
        *ret_count = ARRAY_LEN(table);
        return table;
}

/* ---- matching ---- */

/* ret_ids are the path's segments for the names in braces, empty where the pattern has fewer. */
static bool endpoint_matches(const char *pattern, const struct url *url, struct str ret_ids[IDS_MAX])
{
        struct str rest = str_of(pattern + 1), want, ids[IDS_MAX] = {{"", 0}, {"", 0}};
        size_t i = BASE_SEGMENTS, n = 0;
        bool more = true;

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
                (void)snprintf(allow + n, 64 - n, "%s%s", n ? ", " : "", table[i].method); /* four methods at most */
        }
        return NULL;
}

/* "<id>" or "sbx_<id>": the id is kept.  One that cannot be an id names no sandbox. */
static bool take_sandbox_id(struct exchange *x, struct str id)
{
        if (str_starts(id, "sbx_"))
                id = (struct str){id.p + 4, id.n - 4};
        if (id.n == 0 || id.n >= sizeof(x->id))
                return false;
        for (size_t i = 0; i < id.n; i++)
                if (!((id.p[i] >= 'a' && id.p[i] <= 'z') || (id.p[i] >= '0' && id.p[i] <= '9')))
                        return false;
        memcpy(x->id, id.p, id.n);
        x->id[id.n] = 0;
        return true;
}

/* "Authorization: Bearer <token>".  Whether the token is valid is the API's to say.  false: the request is answered. */
static bool take_token(struct exchange *x)
{
        struct str bearer = http1_value(x->rq->head, "Authorization"), token;

        if (bearer.n < 7 || !str_ieq((struct str){bearer.p, 7}, STR("Bearer "))) {
                tell_error(x, 401, NULL, "a token is needed: Authorization: Bearer <API key>");
                return false;
        }
        token = str_trim((struct str){bearer.p + 7, bearer.n - 7});
        if (token.n == 0 || token.n >= sizeof(x->key)) {
                tell_error(x, 401, NULL, "the token is not valid");
                return false;
        }
        memcpy(x->key, token.p, token.n);
        x->key[token.n] = 0;
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
        struct exchange *x = rq->user;
        json_error_t why;

        if (x->endpoint->body == BODY_OPTIONAL && body_is_blank(body)) {
                x->endpoint->handle(x);
                return;
        }
        if (json_values_most(body) > JSON_VALUES_MAX) {
                tell_error(x, 413, NULL, "the body has more than %u values", JSON_VALUES_MAX);
                return;
        }
        x->body = json_loadb(body.p, body.n, JSON_ALLOW_NUL, &why);
        if (!x->body) /* jansson's words would quote it, and it may be a credential */
                tell_error(x, 400, NULL, "the body is not JSON: line %d column %d", why.line, why.column);
        else if (!json_is_object(x->body))
                tell_error(x, 400, NULL, "the body must be a JSON object");
        else
                x->endpoint->handle(x);
}

/* How much of a body may come; above body_max: more than is taken. */
static uint64_t request_body_bytes(const struct exchange *x)
{
        const struct http1_head *h = x->rq->head;

        switch (h->framing) {
        case HTTP1_BODY_NONE: return 0;
        case HTTP1_BODY_LENGTH: return h->content_length;
        default: return x->endpoint->body_max;
        }
}

static void request_take_body(struct exchange *x)
{
        x->is_secret = x->endpoint->body == BODY_SECRET;
        if (x->is_secret)
                http_keep_secret(x->rq);
        http_read_body(x->rq, x->endpoint->body_max, request_body_read);
}

static void token_answered(struct exchange *x, const struct ask_answer *a)
{
        if (a->status == 401 || a->status >= 500)
                ask_pass_error(x, a);
        else if (exchange_reserve_body(x, request_body_bytes(x)))
                request_take_body(x);
}

/* Memory is reserved only for those whose token is valid: others could use up what there is for all. */
static void request_read_body(struct exchange *x)
{
        uint64_t bytes = request_body_bytes(x);

        if (bytes <= UNKNOWN_MAX || bytes > x->endpoint->body_max)
                request_take_body(x);
        else
                ask(x, &(struct ask_options){.to = ASK_API,
                                             .method = "GET",
                                             .target = "/templates/aliases/base",
                                             .on_answer = token_answered});
}

/* ---- one request ---- */

static void request_dispatch(struct exchange *x)
{
        struct str method = x->rq->head->method, ids[IDS_MAX] = {{"", 0}, {"", 0}};
        bool has_id;
        char allow[64];

        x->endpoint = endpoint_find(method, &x->rq->url, ids, allow);
        if (!x->endpoint && str_is(method, "OPTIONS")) {
                tell_preflight(x);
                return;
        }
        if (!x->endpoint && allow[0]) {
                tell_wrong_method(x, allow);
                return;
        }
        if (!x->endpoint) {
                tell_error(x, 404, NULL, "there is nothing at this path; GET /api/v1/agent/docs shows all paths");
                return;
        }
        if ((x->endpoint->access == ACCESS_KEY && !take_token(x)) || !exchange_may_begin(x))
                return;
        has_id = strstr(x->endpoint->pattern, ID_SEGMENT);
        x->segment = ids[has_id];
        if (has_id && !take_sandbox_id(x, ids[0]))
                tell_error(x, 404, NULL, "no sandbox has such an id");
        else if (x->endpoint->body == BODY_NONE || x->endpoint->body == BODY_STREAMED)
                x->endpoint->handle(x);
        else
                request_read_body(x);
}

void agent_on_request(struct http_request *rq, void *agent)
{
        struct exchange *x = exchange_create(agent, rq);

        if (x)
                request_dispatch(x);
}
