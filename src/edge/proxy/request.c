#include "edge/proxy/request.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "edge/message/answer.h"
#include "edge/message/rewrite.h"
#include "edge/proxy/edge.h"
#include "edge/proxy/edge_client.h"
#include "edge/route/dial.h"
#include "edge/route/owner.h"
#include "edge/route/resume.h"
#include "edge/route/routes.h"
#include "edge/route/signed_url.h"
#include "edge/route/token.h"
#include "edge/route/upstream.h"
#include "model/route.h"

#define API_RETRY_MS 50u
#define OPEN_RETRY_MS 10u /* and twice as long each time */
#define MASKED_MAX (ROUTE_TEXT_MAX * 2)

void request_answer(struct edge_client *c, const struct answer *a)
{
        struct proxy_exchange *x = &c->x;
        struct answer full = *a;

        if (!full.sandbox_id.p)
                full.sandbox_id = str_of(x->visit.id);
        full.port = x->visit.port;
        full.is_html = x->is_html;
        full.to_head = x->to_head;
        if (x->expects_continue && !exchange_is_sent(x))
                x->persists = false; /* whether its body follows now is anyone's guess */
        if (c->edge->is_stopping)
                x->persists = false;
        full.says_close = !x->persists;
        routes_unhook(&c->x.visit); /* what happens to it from here on does not change the answer */
        edge_client_answer(c, &full);
}

static void request_answer_kind(struct edge_client *c, enum answer_kind kind)
{
        request_answer(c, &(struct answer){.kind = kind});
}

static void request_answer_api(struct edge_client *c, unsigned status, const char *message)
{
        request_answer(c, &(struct answer){.kind = ANSWER_API, .status = status, .message = message});
}

static void request_wait(struct edge_client *c, enum edge_client_state state, unsigned ms)
{
        edge_client_go(c, state);
        edge_client_arm_wait(c, ms);
}

/* ---- sending ---- */

static bool method_is_idempotent(struct str method)
{
        static const char *const safe[] = {"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"};

        for (size_t i = 0; i < ARRAY_LEN(safe); i++)
                if (str_is(method, safe[i]))
                        return true;
        return false;
}

/* Tunnels lead past our checks, so only ports that are the user's get them, and never as another HTTP. */
static bool request_may_upgrade(const struct edge_client *c, const struct http1_head *h)
{
        return h->is_upgrade && !c->x.is_api && c->x.visit.port != ENVD_PORT && !http1_has_token(h, "upgrade", "h2c");
}

static int request_write_head(struct edge_client *c, const struct http1_head *h, struct str target, struct buf *out)
{
        const struct routed_sandbox *s = c->x.visit.sandbox;
        struct str host = http1_value(h, "host");
        AUTO_BUF struct buf masked = BUF_INIT(MASKED_MAX);
        struct rewrite_request rq = {.head = h, .target = target, .host = host, .is_upgrade = c->x.is_upgrade};
        int r;

        if (s && s->route.mask_host && c->x.visit.port != ENVD_PORT) {
                r = rewrite_mask(str_of(s->route.mask_host), c->x.visit.port, &masked);
                if (r < 0)
                        return r;
                rq.host = (struct str){(const char *)buf_at(&masked), masked.len};
                rq.orig_host = host;
        }
        return rewrite_request(&rq, out);
}

/* There is a connection: say the head, and what is already there of the body. */
static void request_send(struct edge_client *c, const struct http1_head *h, struct str target)
{
        struct proxy_exchange *x = &c->x;
        struct edge *e = c->edge;

        x->visit.upstream->visit = &x->visit;
        x->is_upgrade = request_may_upgrade(c, h);
        buf_reset(&e->out);
        if (request_write_head(c, h, target, &e->out) < 0) {
                upstream_close(x->visit.upstream);
                x->visit.upstream = NULL;
                request_answer_api(c, 431, "request head is too large");
                return;
        }
        flow_init(&x->up, h, h->framing == HTTP1_BODY_CHUNKED);
        edge_client_go(c, CLIENT_EXCHANGE);
        if (x->is_api && !process_link_is_live(&e->routes.link))
                edge_client_arm_wait(c, c->edge->limits->wait_timeout_ms);
        switch (c->kind->push(c, &e->out)) {
        case FLOW_MORE:
        case FLOW_FULL: break;
        case FLOW_DONE: exchange_request_ended(x); break;
        case FLOW_DEAD: exchange_request_refused(x); break; /* reading from it tells why */
        case FLOW_BAD:
                x->persists = false;
                exchange_request_ended(x);
                upstream_close(x->visit.upstream);
                x->visit.upstream = NULL;
                request_answer_api(c, 400, "malformed body");
                break;
        }
}

/* ---- the API ---- */

static void request_send_to_api(struct edge_client *c, const struct http1_head *h, struct str target)
{
        struct proxy_exchange *x = &c->x;
        struct edge *e = c->edge;
        uint64_t now;
        int error;

        if (!x->needs_new_connection)
                x->visit.upstream = upstream_reuse(&e->upstreams, NULL, 0);
        if (!x->visit.upstream)
                x->visit.upstream = upstream_to_control(&e->upstreams, &error);
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
                request_wait(c, CLIENT_DIAL, API_RETRY_MS); /* the backlog is full: nothing tells when it is not */
}

/* ---- sandboxes ---- */

/* What a wait ended with, when that was the end of it. */
static bool request_answer_wait(struct edge_client *c, enum wait_result result, struct str id)
{
        static const enum answer_kind kinds[] = {
                [WAIT_NOT_FOUND] = ANSWER_NOT_FOUND,     [WAIT_REFUSED] = ANSWER_PORT_CLOSED,
                [WAIT_DENIED] = ANSWER_MAY_NOT_RESUME,   [WAIT_LIMIT] = ANSWER_RESUME_LIMIT,
                [WAIT_NO_SPACE] = ANSWER_DISK_FULL,      [WAIT_BUSY] = ANSWER_BUSY,
                [WAIT_UNAVAILABLE] = ANSWER_UNAVAILABLE, [WAIT_FAILED] = ANSWER_RESUME_FAILED,
        };

        if (result == WAIT_NOTHING || result == WAIT_OVER)
                return false;
        request_answer(c,
                       &(struct answer){.kind = kinds[result], .message = c->edge->routes.refusal, .sandbox_id = id});
        return true;
}

/* One that is not there is waited for a moment, one that is there longer: in pieces, between which we look. */
static void request_wait_for_control(struct edge_client *c)
{
        c->x.route_until_ms = clock_mono_ms() + c->edge->limits->route_timeout_ms;
        request_wait(c, CLIENT_ROUTE, c->edge->limits->wait_timeout_ms);
}

static bool request_may_wait_on(const struct edge_client *c)
{
        const struct routed_sandbox *s = c->x.visit.waits_for;

        if (s && s->asks == ASKS_NOTHING)
                return false; /* there was no memory to ask */
        return process_link_is_live(&c->edge->routes.link) && clock_mono_ms() < c->x.route_until_ms;
}

/* true: *ret is where it goes, though it may be at rest.  Otherwise it waits or is answered. */
static bool request_find_sandbox(struct edge_client *c, struct str id, struct routed_sandbox **ret)
{
        struct proxy_exchange *x = &c->x;
        enum answer_kind kind = ANSWER_UNAVAILABLE;

        if (x->visit.sandbox) { /* hooked already, before a wait for its socket */
                *ret = x->visit.sandbox;
                return true;
        }
        if (request_answer_wait(c, x->visit.route_result, id))
                return false;
        switch (routes_get(&c->edge->routes, id, &x->visit, ret)) {
        case ROUTES_FOUND:
        case ROUTES_RESUMABLE: return true;
        case ROUTES_WAIT: request_wait_for_control(c); return false;
        case ROUTES_PAUSED: kind = ANSWER_PAUSED; break;
        case ROUTES_NOT_FOUND: kind = ANSWER_NOT_FOUND; break;
        case ROUTES_CROWDED:
        case ROUTES_FULL: break;
        }
        request_answer(c, &(struct answer){.kind = kind, .sandbox_id = id});
        return false;
}

/* It is going to rest, and the engine heard of it before we did: on the way that tells of routes, word of it comes before
 * an answer. */
static bool request_ask_again(struct edge_client *c, struct str id, struct routed_sandbox **s)
{
        struct proxy_exchange *x = &c->x;

        if (x->visit.dial_result != WAIT_NOT_FOUND || x->has_asked_again)
                return true;
        x->has_asked_again = true;
        x->visit.dial_result = WAIT_NOTHING;
        routes_unhook(&c->x.visit);
        routes_doubt(&c->edge->routes, *s);
        return request_find_sandbox(c, id, s);
}

static bool request_check_token(struct edge_client *c, const struct http1_head *h, const struct routed_sandbox *s)
{
        const struct http1_header *given = http1_find(h, "e2b-traffic-access-token");

        if (!s->route.traffic_token || c->x.visit.port == ENVD_PORT)
                return true;
        if (!given || given->value.n == 0) {
                request_answer_kind(c, ANSWER_TOKEN_MISSING);
                return false;
        }
        if (str_eq_secret(given->value, str_of(s->route.traffic_token)))
                return true;
        request_answer_kind(c, ANSWER_TOKEN_WRONG);
        return false;
}

static bool request_check_count(struct edge_client *c, const struct routed_sandbox *s)
{
        uint32_t most = c->edge->conf->sandbox_connections_max;

        if (most == 0 || c->x.visit.sandbox || s->live_count < most) /* those that are hooked are counted */
                return true;
        request_answer(c, &(struct answer){.kind = ANSWER_TOO_MANY, .limit = most});
        return false;
}

/* How long the next piece of the wait for a wake may be: between them we look whether control is there at all. */
static unsigned resume_piece_ms(const struct edge_client *c, uint64_t now)
{
        uint64_t left = c->x.wait_until_ms - now, most = c->edge->limits->wait_timeout_ms;

        return (unsigned)(left < most ? left : most);
}

/* It is at rest: the request waits until it runs, its body unread. */
static void request_resume_sandbox(struct edge_client *c, const struct http1_head *h, struct routed_sandbox *s)
{
        const struct edge_limits *limits = c->edge->limits;
        uint64_t now = clock_mono_ms();

        if (!c->x.wait_until_ms)
                c->x.wait_until_ms = now + limits->resume_timeout_ms;
        if (now >= c->x.wait_until_ms) { /* it woke and went to rest again, and so on */
                request_answer_kind(c, ANSWER_BUSY);
                return;
        }
        switch (resume_ask(&c->edge->routes, s, &c->x.visit, http1_value(h, "x-access-token"))) {
        case ROUTES_WAIT: request_wait(c, CLIENT_RESUME, resume_piece_ms(c, now)); break;
        case ROUTES_CROWDED:
                request_answer(
                        c, &(struct answer){.kind = ANSWER_TOO_MANY, .limit = (unsigned)limits->resume_waiters_max});
                break;
        default: request_answer_kind(c, ANSWER_UNAVAILABLE); break;
        }
}

/* A piece of the wait for a wake is over. */
static void request_wait_on_for_resume(struct edge_client *c)
{
        bool is_live = process_link_is_live(&c->edge->routes.link);
        unsigned patience = c->edge->limits->wait_timeout_ms;
        uint64_t now = clock_mono_ms();

        if (!is_live && c->x.wait_until_ms > now + patience)
                c->x.wait_until_ms = now + patience;
        if (now < c->x.wait_until_ms) {
                edge_client_arm_wait(c, resume_piece_ms(c, now));
                return;
        }
        visit_leave(&c->x.visit);
        c->x.visit.route_result = is_live ? WAIT_BUSY : WAIT_UNAVAILABLE;
        edge_client_go_on(c);
}

/* A user's server hangs up on idle connections when it likes; only what may be repeated takes that risk. */
static bool request_may_reuse(const struct proxy_exchange *x)
{
        return !x->needs_new_connection && (x->visit.port == ENVD_PORT || x->is_idempotent);
}

static void request_dial(struct edge_client *c)
{
        struct edge *e = c->edge;
        bool is_live = process_link_is_live(&e->dialler.link);

        if (!c->x.dial_since_ms)
                c->x.dial_since_ms = clock_mono_ms();
        if (!dial_ask(&c->x.visit))
                request_answer_kind(c, ANSWER_UNAVAILABLE);
        else
                request_wait(c, CLIENT_DIAL, is_live ? e->limits->dial_timeout_ms : c->edge->limits->wait_timeout_ms);
}

/* The port is closed.  A server that is being started opens it in a moment, and nothing tells when: true, it is tried
 * again a little later. */
static bool request_wait_for_port(struct edge_client *c)
{
        uint64_t passed = clock_mono_ms() - c->x.dial_since_ms, most = c->edge->limits->port_timeout_ms;
        unsigned pause = OPEN_RETRY_MS << c->x.closed_count;

        if (passed >= most || !routes_await_port(&c->x.visit))
                return false;
        c->x.closed_count++;
        c->x.visit.dial_result = WAIT_NOTHING;
        request_wait(c, CLIENT_DIAL, passed + pause < most ? pause : (unsigned)(most - passed));
        return true;
}

/* It stopped while it was being dialled: as if it had not been looked at yet. */
static void request_unhook_stopped(struct edge_client *c)
{
        if (!c->x.visit.sandbox || c->x.visit.upstream || c->x.visit.sandbox->route.is_running)
                return;
        routes_unhook(&c->x.visit);
        c->x.visit.dial_result = WAIT_NOTHING;
}

static void request_send_to_sandbox(struct edge_client *c, const struct http1_head *h, struct str target,
                                    const struct route_target *to)
{
        struct proxy_exchange *x = &c->x;
        struct routed_sandbox *s;

        request_unhook_stopped(c);
        if (!request_find_sandbox(c, to->id, &s) || !request_ask_again(c, to->id, &s))
                return;
        if (!request_check_token(c, h, s) || !request_check_count(c, s))
                return;
        if (!s->route.is_running && !x->visit.upstream) { /* one that was dialled runs, whatever the news say */
                request_resume_sandbox(c, h, s);
                return;
        }
        routes_hook(&c->x.visit, s);
        if (x->visit.dial_result == WAIT_REFUSED && request_wait_for_port(c))
                return;
        if (request_answer_wait(c, x->visit.dial_result, to->id))
                return;
        if (!x->visit.upstream && request_may_reuse(x))
                x->visit.upstream = upstream_reuse(&c->edge->upstreams, s, x->visit.port);
        x->visit.dial_result = WAIT_NOTHING;
        if (!x->visit.upstream) {
                request_dial(c);
                return;
        }
        routes_port_opened(&c->x.visit);
        request_send(c, h, target);
}

/* ---- where to ---- */

/* Control was, or was not, asked whose the request is. */
static void request_await_owner(struct edge_client *c, enum routes_result asked, const char *too_many)
{
        switch (asked) {
        case ROUTES_WAIT: request_wait_for_control(c); break;
        case ROUTES_CROWDED: request_answer_api(c, 429, too_many); break;
        default: request_answer_api(c, 503, "the API is not available, try again"); break;
        }
}

/* A signed URL that names no sandbox.  true: x->visit.id is whose it is.  Otherwise it waits or is answered. */
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
                                    "too many URLs that nobody signed, try again");
        return false;
}

/* The same for a request with nothing but an access token.  One that is nobody's may have been a sandbox's that ended. */
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
                        "too many access tokens that are nobody's, try again");
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
        flow_init(&x->up, h, false); /* so that the body can be skipped when we answer by ourselves */
}

static bool request_has_api_key(const struct http1_head *h)
{
        struct str bearer = http1_value(h, "authorization");

        return http1_value(h, "x-api-key").n || (bearer.n > 7 && str_ieq((struct str){bearer.p, 7}, STR("Bearer ")));
}

/* Where the request goes, as far as its head tells.  false: nowhere, and it is answered. */
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
        x->is_api = to->kind == ROUTE_API;
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

                if (!is_signed && to.kind == ROUTE_API) {
                        request_send_to_api(c, h, target);
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
        reserved = to.port == ENVD_PORT ? route_reserved_path(path) : NULL;
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
