#include "edge/proxy/request.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "edge/message/rewrite.h"
#include "edge/proxy/edge.h"
#include "edge/proxy/request_parts.h"
#include "edge/route/signed_url.h"
#include "edge/route/token.h"

#define API_RETRY_MS 50u

/* ---- the API ---- */

static void request_send_to_role(struct edge_client *c, const struct http1_head *h, struct str target,
                                 enum upstream_role role)
{
        struct proxy_exchange *x = &c->x;
        struct edge *e = c->edge;
        uint64_t now;
        int error;

        if (!x->needs_new_connection)
                x->visit.upstream = upstream_reuse(&e->upstreams, NULL, (uint16_t)role);
        if (!x->visit.upstream)
                x->visit.upstream = upstream_to_role(&e->upstreams, role, &error);
        if (x->visit.upstream) {
                request_send(c, h, target);
                return;
        }
        now = clock_mono_ms();
        if (!x->wait_until_ms)
                x->wait_until_ms = now + c->edge->limits->wait_timeout_ms;
        if (now >= x->wait_until_ms || error == -ENOMEM)
                request_answer_api(c, 503, "the API is not available, try again");
        else
                request_wait(c, CLIENT_DIAL, API_RETRY_MS); /* the backlog is full, and there is no event for its end */
}

/* ---- where to ---- */

/* Control was asked which sandbox the request belongs to, or could not be asked. */
static void request_await_owner(struct edge_client *c, enum routes_result asked, const char *too_many)
{
        switch (asked) {
        case ROUTES_WAIT: request_wait_for_control(c); break;
        case ROUTES_CROWDED: request_answer_api(c, 429, too_many); break;
        default: request_answer_api(c, 503, "the API is not available, try again"); break;
        }
}

/* A signed URL that names no sandbox.  true: visit.id is the sandbox.  Otherwise the request waits or is answered. */
static bool request_find_signer(struct edge_client *c, struct str method, struct str query)
{
        struct proxy_exchange *x = &c->x;

        if (x->visit.id[0])
                return true;
        if (x->visit.route_result == WAIT_NOT_FOUND)
                request_answer_api(c, 401, "invalid signature");
        else
                request_await_owner(c,
                                    x->visit.route_result == WAIT_UNAVAILABLE
                                            ? ROUTES_FULL
                                            : signed_url_ask(&x->visit, method, query),
                                    "too many requests with unknown signatures, try again");
        return false;
}

/* The same for a request with nothing but an access token.  A token that no sandbox has may be one of a sandbox that ended. */
static bool request_find_token_owner(struct edge_client *c, struct str token)
{
        struct proxy_exchange *x = &c->x;

        if (x->visit.id_is_news)
                token_keep(&c->edge->routes, token, x->visit.id);
        x->visit.id_is_news = false;
        if (x->visit.id[0] || token_find(&c->edge->routes, token, x->visit.id))
                return true;
        if (x->visit.route_result == WAIT_NOT_FOUND || !token_is_wellformed(token))
                request_answer_kind(c, ANSWER_NOT_FOUND);
        else
                request_await_owner(
                        c, x->visit.route_result == WAIT_UNAVAILABLE ? ROUTES_FULL : token_ask(&x->visit, token),
                        "too many requests with unknown access tokens, try again");
        return false;
}

static bool method_is_idempotent(struct str method)
{
        static const char *const safe[] = {"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"};

        for (size_t i = 0; i < ARRAY_LEN(safe); i++)
                if (str_is(method, safe[i]))
                        return true;
        return false;
}

static void request_note(struct edge_client *c, const struct http1_head *h)
{
        struct proxy_exchange *x = &c->x;

        x->client_minor = h->minor;
        x->to_head = str_is(h->method, "HEAD");
        x->is_idempotent = method_is_idempotent(h->method);
        x->expects_continue = h->expect_continue;
        x->persists = h->keep_alive;
        x->upstream_persists = false;
        exchange_begin(x);
        x->interim_count = 0;
        if (c->edge->is_logging) {
                size_t n = h->method.n < sizeof(x->method) - 1 ? h->method.n : sizeof(x->method) - 1;

                memcpy(x->method, h->method.p, n);
                x->method[n] = 0;
                if (!x->started_us)
                        x->started_us = clock_mono_us();
        }
        flow_init(&x->up, h, false); /* so that the body can be skipped when the edge itself answers */
}

static bool request_has_api_key(const struct http1_head *h)
{
        struct str bearer = http1_value(h, "authorization");

        return http1_value(h, "x-api-key").n || (bearer.n > 7 && str_ieq((struct str){bearer.p, 7}, STR("Bearer ")));
}

/* Where the request goes, as far as its head tells.  false: nowhere, and the request is answered. */
static bool request_decide(struct edge_client *c, const struct http1_head *h, struct route_target *to,
                           struct str *ret_target)
{
        struct route_request rq = {.host = http1_value(h, "host"),
                                   .id = http1_value(h, "e2b-sandbox-id"),
                                   .port = http1_value(h, "e2b-sandbox-port"),
                                   .target = STR(""),
                                   .has_key = request_has_api_key(h),
                                   .has_token = http1_value(h, "x-access-token").n > 0};
        bool has_target = rewrite_target(h->method, h->target, rq.host, &rq.target);
        struct proxy_exchange *x = &c->x;

        route_decide(&rq, str_of(c->edge->conf->domain), to);
        x->is_agent = to->kind == ROUTE_AGENT;
        x->is_api = to->kind == ROUTE_API || x->is_agent;
        x->visit.port = to->port;
        x->is_html = false;
        if (c->must_switch && (x->is_api || x->visit.port == ENVD_PORT)) {
                request_answer_api(c, 400, "no tunnel leads there");
                return false;
        }
        if (to->kind == ROUTE_SANDBOX && sandbox_id_is_valid(to->id))
                memcpy(x->visit.id, to->id.p, to->id.n);
        if (!has_target) {
                x->persists = false;
                request_answer_api(c, 400, "unsupported request target");
                return false;
        }
        if (to->kind == ROUTE_REFUSED)
                request_answer(c, &(struct answer){.kind = ANSWER_TEXT, .status = to->status, .message = to->message});
        *ret_target = rq.target;
        return to->kind != ROUTE_REFUSED;
}

/* The role agent moves whole directories as the builder does, with the token of the sandbox. */
static const char *request_reserved_path(const struct edge_client *c, struct str path)
{
        static const char *const archives[] = {"/sandglass/archive", "/sandglass/copy"};

        for (size_t i = 0; c->is_local && i < ARRAY_LEN(archives); i++)
                if (str_is(path, archives[i]))
                        return NULL;
        return route_reserved_path(path);
}

void request_begin(struct edge_client *c, const struct http1_head *h)
{
        struct proxy_exchange *x = &c->x;
        struct route_target to;
        struct str target, path, query;
        const char *reserved;

        request_note(c, h);
        if (!request_decide(c, h, &to, &target))
                return;
        if (to.kind != ROUTE_SANDBOX) {
                bool is_signed = signed_url_is(h->method, target, &query);

                if (!is_signed && x->is_api) {
                        request_send_to_role(c, h, target, x->is_agent ? UPSTREAM_AGENT : UPSTREAM_CONTROL);
                        return;
                }
                if (is_signed ? !request_find_signer(c, h->method, query)
                              : !request_find_token_owner(c, http1_value(h, "x-access-token")))
                        return;
                to = (struct route_target){.kind = ROUTE_SANDBOX, .id = str_of(x->visit.id), .port = ENVD_PORT};
                x->is_api = false;
                x->visit.port = ENVD_PORT;
        }
        query = target;
        (void)str_cut(&query, '?', &path);
        reserved = to.port == ENVD_PORT ? request_reserved_path(c, path) : NULL;
        if (reserved) {
                request_answer(c, &(struct answer){.kind = ANSWER_RESERVED, .message = reserved});
                return;
        }
        x->is_html = answer_wants_html(h);
        request_send_to_sandbox(c, h, target, &to);
}

void request_on_wait_over(struct edge_client *c)
{
        struct proxy_exchange *x = &c->x;

        switch (c->state) {
        case CLIENT_ROUTE:
                if (request_may_wait_on(c)) {
                        edge_client_arm_wait(c, c->edge->limits->wait_timeout_ms);
                        break;
                }
                visit_leave(&x->visit);
                x->visit.route_result = WAIT_UNAVAILABLE;
                edge_client_go_on(c);
                break;
        case CLIENT_RESUME: request_wait_on_for_resume(c); break;
        case CLIENT_DIAL:
                if (x->visit.state == VISIT_SOCKET) { /* otherwise it was a pause between two dials */
                        x->visit.dial_result =
                                process_link_is_live(&c->edge->dialler.link) ? WAIT_REFUSED : WAIT_UNAVAILABLE;
                        visit_leave(&x->visit);
                }
                edge_client_go_on(c);
                break;
        case CLIENT_EXCHANGE:
                if (!x->is_api || exchange_is_answered(x) || process_link_is_live(&c->edge->routes.link))
                        break;
                upstream_close(x->visit.upstream);
                x->visit.upstream = NULL;
                block_drop(&c->edge->blocks, &x->up.out);
                request_answer_api(c, 503, "the API is not available, try again");
                edge_client_advance(c);
                break;
        default: break;
        }
}
