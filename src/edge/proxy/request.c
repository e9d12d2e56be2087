#include "edge/proxy/request.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "edge/message/answer.h"
#include "edge/proxy/edge_client.h"
#include "edge/route/dial.h"
#include "edge/proxy/edge.h"
#include "edge/route/owner.h"
#include "edge/message/rewrite.h"
#include "edge/route/routes.h"
#include "edge/route/signed_url.h"
#include "edge/route/token.h"
#include "edge/route/upstream.h"
#include "edge/route/resume.h"
#include "model/route.h"

#define API_RETRY_MS 50u
#define OPEN_RETRY_MS 10u /* and twice as long each time */
#define MASKED_MAX (ROUTE_TEXT_MAX * 2)

void request_answer(struct edge_client *c, const struct answer *a)
{
        struct proxy_exchange *x = &c->x;
        struct answer full = *a;

        if (!full.sandbox_id.p)
                full.sandbox_id = str_of(x->id);
        full.port = x->port;
        full.is_html = x->is_html;
        full.to_head = x->to_head;
        if (x->expects_continue && !x->request_ended)
                x->persists = false; /* whether its body follows now is anyone's guess */
        if (c->edge->is_stopping)
                x->persists = false;
        full.says_close = !x->persists;
        routes_unhook(c); /* what happens to it from here on does not change the answer */
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
        return h->is_upgrade && !c->x.is_api && c->x.port != ENVD_PORT && !http1_has_token(h, "upgrade", "h2c");
}

static int request_write_head(struct edge_client *c, const struct http1_head *h, struct str target, struct buf *out)
{
        const struct routed_sandbox *s = c->x.sandbox;
        struct str host = http1_value(h, "host");
        AUTO_BUF struct buf masked = BUF_INIT(MASKED_MAX);
        struct rewrite_request rq = {.head = h, .target = target, .host = host, .is_upgrade = c->x.is_upgrade};
        int r;

        if (s && s->route.mask_host && c->x.port != ENVD_PORT) {
                r = rewrite_mask(str_of(s->route.mask_host), c->x.port, &masked);
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

        x->upstream->client = c;
        x->is_upgrade = request_may_upgrade(c, h);
        buf_reset(&e->out);
        if (request_write_head(c, h, target, &e->out) < 0) {
                upstream_close(x->upstream);
                x->upstream = NULL;
                request_answer_api(c, 431, "request head is too large");
                return;
        }
        flow_init(&x->up, h, h->framing == HTTP1_BODY_CHUNKED);
        edge_client_go(c, CLIENT_EXCHANGE);
        if (x->is_api && !process_link_is_live(&e->routes_link))
                edge_client_arm_wait(c, c->edge->limits->wait_timeout_ms);
        switch (c->kind->push(c, &e->out)) {
        case FLOW_MORE:
        case FLOW_FULL: break;
        case FLOW_DONE: x->request_ended = true; break;
        case FLOW_DEAD: x->request_broken = true; break; /* reading from it tells why */
        case FLOW_BAD:
                x->persists = false;
                x->request_ended = true;
                upstream_close(x->upstream);
                x->upstream = NULL;
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
                x->upstream = upstream_reuse(e, NULL, 0);
        if (!x->upstream)
                x->upstream = upstream_to_control(e, &error);
        if (x->upstream) {
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
static bool request_answer_wait(struct edge_client *c, enum visit_result result, struct str id)
{
        static const enum answer_kind kinds[] = {
                [WAIT_NOT_FOUND] = ANSWER_NOT_FOUND,     [WAIT_REFUSED] = ANSWER_PORT_CLOSED,
                [WAIT_DENIED] = ANSWER_MAY_NOT_RESUME,   [WAIT_LIMIT] = ANSWER_RESUME_LIMIT,
                [WAIT_NO_SPACE] = ANSWER_DISK_FULL,      [WAIT_BUSY] = ANSWER_BUSY,
                [WAIT_UNAVAILABLE] = ANSWER_UNAVAILABLE, [WAIT_FAILED] = ANSWER_RESUME_FAILED,
        };

        if (result == WAIT_NOTHING || result == WAIT_OVER)
                return false;
        request_answer(c, &(struct answer){.kind = kinds[result], .message = c->edge->refusal, .sandbox_id = id});
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
        const struct routed_sandbox *s = c->x.waits_for;

        if (s && s->asks == ASKS_NOTHING)
                return false; /* there was no memory to ask */
        return process_link_is_live(&c->edge->routes_link) && clock_mono_ms() < c->x.route_until_ms;
}

/* true: *ret is where it goes, though it may be at rest.  Otherwise it waits or is answered. */
static bool request_find_sandbox(struct edge_client *c, struct str id, struct routed_sandbox **ret)
{
        struct proxy_exchange *x = &c->x;
        enum answer_kind kind = ANSWER_UNAVAILABLE;

        if (x->sandbox) { /* hooked already, before a wait for its socket */
                *ret = x->sandbox;
                return true;
        }
        if (request_answer_wait(c, x->route_wait, id))
                return false;
        switch (routes_get(c->edge, id, c, ret)) {
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

        if (x->dial_wait != WAIT_NOT_FOUND || x->has_asked_again)
                return true;
        x->has_asked_again = true;
        x->dial_wait = WAIT_NOTHING;
        routes_unhook(c);
        routes_doubt(c->edge, *s);
        return request_find_sandbox(c, id, s);
}

static bool request_check_token(struct edge_client *c, const struct http1_head *h, const struct routed_sandbox *s)
{
        const struct http1_header *given = http1_find(h, "e2b-traffic-access-token");

        if (!s->route.traffic_token || c->x.port == ENVD_PORT)
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

        if (most == 0 || c->x.sandbox || s->live_count < most) /* those that are hooked are counted */
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
        switch (resume_ask(c->edge, s, c, http1_value(h, "x-access-token"))) {
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
        bool is_live = process_link_is_live(&c->edge->routes_link);
        unsigned patience = c->edge->limits->wait_timeout_ms;
        uint64_t now = clock_mono_ms();

        if (!is_live && c->x.wait_until_ms > now + patience)
                c->x.wait_until_ms = now + patience;
        if (now < c->x.wait_until_ms) {
                edge_client_arm_wait(c, resume_piece_ms(c, now));
                return;
        }
        routes_forget(c);
        c->x.route_wait = is_live ? WAIT_BUSY : WAIT_UNAVAILABLE;
        edge_client_go_on(c);
}

/* A user's server hangs up on idle connections when it likes; only what may be repeated takes that risk. */
static bool request_may_reuse(const struct proxy_exchange *x)
{
        return !x->needs_new_connection && (x->port == ENVD_PORT || x->is_idempotent);
}

static void request_dial(struct edge_client *c)
{
        struct edge *e = c->edge;
        bool is_live = process_link_is_live(&e->dial_link);

        if (!c->x.dial_since_ms)
                c->x.dial_since_ms = clock_mono_ms();
        if (!dial_ask(e, c))
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

        if (passed >= most || !routes_await_port(c))
                return false;
        c->x.closed_count++;
        c->x.dial_wait = WAIT_NOTHING;
        request_wait(c, CLIENT_DIAL, passed + pause < most ? pause : (unsigned)(most - passed));
        return true;
}

/* It stopped while it was being dialled: as if it had not been looked at yet. */
static void request_unhook_stopped(struct edge_client *c)
{
        if (!c->x.sandbox || c->x.upstream || c->x.sandbox->route.is_running)
                return;
        routes_unhook(c);
        c->x.dial_wait = WAIT_NOTHING;
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
        if (!s->route.is_running && !x->upstream) { /* one that was dialled runs, whatever the news say */
                request_resume_sandbox(c, h, s);
                return;
        }
        routes_hook(c, s);
        if (x->dial_wait == WAIT_REFUSED && request_wait_for_port(c))
                return;
        if (request_answer_wait(c, x->dial_wait, to->id))
                return;
        if (!x->upstream && request_may_reuse(x))
                x->upstream = upstream_reuse(c->edge, s, x->port);
        x->dial_wait = WAIT_NOTHING;
        if (!x->upstream) {
                request_dial(c);
                return;
        }
        routes_port_opened(c);
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

/* A signed URL that names no sandbox.  true: x->id is whose it is.  Otherwise it waits or is answered. */
static bool request_find_signer(struct edge_client *c, struct str method, struct str query)
{
        struct proxy_exchange *x = &c->x;

        if (x->id[0])
                return true;
        if (x->route_wait == WAIT_NOT_FOUND)
                request_answer_api(c, 401, "invalid signature");
        else
                request_await_owner(c,
                                    x->route_wait == WAIT_UNAVAILABLE ? ROUTES_FULL : signed_url_ask(c, method, query),
                                    "too many URLs that nobody signed, try again");
        return false;
}

/* The same for a request with nothing but an access token.  One that is nobody's may have been a sandbox's that ended. */
static bool request_find_token_owner(struct edge_client *c, struct str token)
{
        struct proxy_exchange *x = &c->x;

        if (x->id_is_news)
                token_keep(c->edge, token, x->id);
        x->id_is_news = false;
        if (x->id[0] || token_find(c->edge, token, x->id))
                return true;
        if (x->route_wait == WAIT_NOT_FOUND || !token_is_wellformed(token))
                request_answer_kind(c, ANSWER_NOT_FOUND);
        else
                request_await_owner(c, x->route_wait == WAIT_UNAVAILABLE ? ROUTES_FULL : token_ask(c, token),
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
        x->request_ended = false;
        x->request_broken = x->has_answer = x->upstream_persists = false;
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
        x->port = to->port;
        x->is_html = false;
        if (c->must_switch && (x->is_api || x->port == ENVD_PORT)) {
                request_answer_api(c, 400, "no tunnel leads there");
                return false;
        }
        if (to->kind == ROUTE_SANDBOX && sandbox_id_is_valid(to->id))
                memcpy(x->id, to->id.p, to->id.n);
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
                to = (struct route_target){.kind = ROUTE_SANDBOX, .id = str_of(x->id), .port = ENVD_PORT};
                x->is_api = false;
                x->port = ENVD_PORT;
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
                routes_forget(c);
                owner_forget(c);
                x->route_wait = WAIT_UNAVAILABLE;
                edge_client_go_on(c);
                break;
        case CLIENT_RESUME: request_wait_on_for_resume(c); break;
        case CLIENT_DIAL:
                if (x->dial_req) { /* otherwise it was a pause */
                        x->dial_wait = process_link_is_live(&c->edge->dial_link) ? WAIT_REFUSED : WAIT_UNAVAILABLE;
                        dial_forget(c);
                }
                edge_client_go_on(c);
                break;
        case CLIENT_EXCHANGE:
                if (!x->is_api || x->has_answer || process_link_is_live(&c->edge->routes_link))
                        break;
                upstream_close(x->upstream);
                x->upstream = NULL;
                block_drop(&c->edge->blocks, &x->up.out);
                request_answer_api(c, 503, "the API is not available, try again");
                edge_client_advance(c);
                break;
        default: break;
        }
}
