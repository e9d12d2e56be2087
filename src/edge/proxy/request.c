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

void request_answer(struct client *c, const struct answer *a)
{
        struct exchange *x = &c->x;
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
        client_answer(c, &full);
}

static void answer_kind(struct client *c, enum answer_kind kind)
{
        request_answer(c, &(struct answer){.kind = kind});
}

static void answer_api(struct client *c, unsigned status, const char *message)
{
        request_answer(c, &(struct answer){.kind = ANSWER_API, .status = status, .message = message});
}

static void wait_for(struct client *c, enum client_state state, unsigned ms)
{
        client_go(c, state);
        client_arm_wait(c, ms);
}

/* ---- sending ---- */

static bool is_idempotent(struct str method)
{
        static const char *const safe[] = {"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"};

        for (size_t i = 0; i < ARRAY_LEN(safe); i++)
                if (str_is(method, safe[i]))
                        return true;
        return false;
}

/* Tunnels lead past our checks, so only ports that are the user's get them, and never as another HTTP. */
static bool may_upgrade(const struct client *c, const struct http1_head *h)
{
        return h->is_upgrade && !c->x.is_api && c->x.port != ENVD_PORT && !http1_has_token(h, "upgrade", "h2c");
}

static int write_head(struct client *c, const struct http1_head *h, struct str target, struct buf *out)
{
        const struct sandbox *s = c->x.sandbox;
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
static void send_request(struct client *c, const struct http1_head *h, struct str target)
{
        struct exchange *x = &c->x;
        struct edge *e = c->edge;

        x->upstream->client = c;
        x->is_upgrade = may_upgrade(c, h);
        buf_reset(&e->out);
        if (write_head(c, h, target, &e->out) < 0) {
                upstream_close(x->upstream);
                x->upstream = NULL;
                answer_api(c, 431, "request head is too large");
                return;
        }
        flow_init(&x->up, h, h->framing == HTTP1_BODY_CHUNKED);
        client_go(c, CLIENT_EXCHANGE);
        if (x->is_api && !link_is_live(&e->routes_link))
                client_arm_wait(c, c->edge->limits->wait_timeout_ms);
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
                answer_api(c, 400, "malformed body");
                break;
        }
}

/* ---- the API ---- */

static void send_to_api(struct client *c, const struct http1_head *h, struct str target)
{
        struct exchange *x = &c->x;
        struct edge *e = c->edge;
        uint64_t now;
        int error;

        if (!x->must_be_fresh)
                x->upstream = upstream_reuse(e, NULL, 0);
        if (!x->upstream)
                x->upstream = upstream_to_control(e, &error);
        if (x->upstream) {
                send_request(c, h, target);
                return;
        }
        now = clock_mono_ms();
        if (!x->wait_until_ms)
                x->wait_until_ms = now + c->edge->limits->wait_timeout_ms;
        if (now >= x->wait_until_ms || error == -ENOMEM)
                answer_api(c, 503, "the API is not available, try again");
        else
                wait_for(c, CLIENT_DIAL, API_RETRY_MS); /* the backlog is full: nothing tells when it is not */
}

/* ---- sandboxes ---- */

/* What a wait ended with, when that was the end of it. */
static bool answer_wait(struct client *c, enum wait_result result, struct str id)
{
        static const enum answer_kind kinds[] = {
                [WAIT_NOT_FOUND] = ANSWER_NOT_FOUND,     [WAIT_REFUSED] = ANSWER_PORT_CLOSED,
                [WAIT_DENIED] = ANSWER_MAY_NOT_WAKE,     [WAIT_LIMIT] = ANSWER_WAKE_LIMIT,
                [WAIT_NO_SPACE] = ANSWER_DISK_FULL,      [WAIT_BUSY] = ANSWER_BUSY,
                [WAIT_UNAVAILABLE] = ANSWER_UNAVAILABLE, [WAIT_FAILED] = ANSWER_WAKE_FAILED,
        };

        if (result == WAIT_NOTHING || result == WAIT_OVER)
                return false;
        request_answer(c, &(struct answer){.kind = kinds[result], .message = c->edge->refusal, .sandbox_id = id});
        return true;
}

/* One that is not there is waited for a moment, one that is there longer: in pieces, between which we look. */
static void wait_for_control(struct client *c)
{
        c->x.route_until_ms = clock_mono_ms() + c->edge->limits->route_timeout_ms;
        wait_for(c, CLIENT_ROUTE, c->edge->limits->wait_timeout_ms);
}

static bool is_worth_waiting(const struct client *c)
{
        const struct sandbox *s = c->x.waits_for;

        if (s && s->asks == ASKS_NOTHING)
                return false; /* there was no memory to ask */
        return link_is_live(&c->edge->routes_link) && clock_mono_ms() < c->x.route_until_ms;
}

/* true: *ret is where it goes, though it may be at rest.  Otherwise it waits or is answered. */
static bool find_sandbox(struct client *c, struct str id, struct sandbox **ret)
{
        struct exchange *x = &c->x;
        enum answer_kind kind = ANSWER_UNAVAILABLE;

        if (x->sandbox) { /* hooked already, before a wait for its socket */
                *ret = x->sandbox;
                return true;
        }
        if (answer_wait(c, x->route_wait, id))
                return false;
        switch (routes_get(c->edge, id, c, ret)) {
        case ROUTES_FOUND:
        case ROUTES_ASLEEP: return true;
        case ROUTES_WAIT: wait_for_control(c); return false;
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
static bool look_again(struct client *c, struct str id, struct sandbox **s)
{
        struct exchange *x = &c->x;

        if (x->dial_wait != WAIT_NOT_FOUND || x->has_doubted)
                return true;
        x->has_doubted = true;
        x->dial_wait = WAIT_NOTHING;
        routes_unhook(c);
        routes_doubt(c->edge, *s);
        return find_sandbox(c, id, s);
}

static bool check_token(struct client *c, const struct http1_head *h, const struct sandbox *s)
{
        const struct http1_header *given = http1_find(h, "e2b-traffic-access-token");

        if (!s->route.traffic_token || c->x.port == ENVD_PORT)
                return true;
        if (!given || given->value.n == 0) {
                answer_kind(c, ANSWER_TOKEN_MISSING);
                return false;
        }
        if (str_eq_secret(given->value, str_of(s->route.traffic_token)))
                return true;
        answer_kind(c, ANSWER_TOKEN_WRONG);
        return false;
}

static bool check_count(struct client *c, const struct sandbox *s)
{
        uint32_t most = c->edge->conf->sandbox_connections_max;

        if (most == 0 || c->x.sandbox || s->live_count < most) /* those that are hooked are counted */
                return true;
        request_answer(c, &(struct answer){.kind = ANSWER_TOO_MANY, .limit = most});
        return false;
}

/* How long the next piece of the wait for a wake may be: between them we look whether control is there at all. */
static unsigned wake_piece_ms(const struct client *c, uint64_t now)
{
        uint64_t left = c->x.wait_until_ms - now, most = c->edge->limits->wait_timeout_ms;

        return (unsigned)(left < most ? left : most);
}

/* It is at rest: the request waits until it runs, its body unread. */
static void wake(struct client *c, const struct http1_head *h, struct sandbox *s)
{
        const struct edge_limits *limits = c->edge->limits;
        uint64_t now = clock_mono_ms();

        if (!c->x.wait_until_ms)
                c->x.wait_until_ms = now + limits->wake_timeout_ms;
        if (now >= c->x.wait_until_ms) { /* it woke and went to rest again, and so on */
                answer_kind(c, ANSWER_BUSY);
                return;
        }
        switch (wake_ask(c->edge, s, c, http1_value(h, "x-access-token"))) {
        case ROUTES_WAIT: wait_for(c, CLIENT_WAKE, wake_piece_ms(c, now)); break;
        case ROUTES_CROWDED:
                request_answer(c,
                               &(struct answer){.kind = ANSWER_TOO_MANY, .limit = (unsigned)limits->wake_waiters_max});
                break;
        default: answer_kind(c, ANSWER_UNAVAILABLE); break;
        }
}

/* A piece of the wait for a wake is over. */
static void go_on_waking(struct client *c)
{
        bool is_live = link_is_live(&c->edge->routes_link);
        unsigned patience = c->edge->limits->wait_timeout_ms;
        uint64_t now = clock_mono_ms();

        if (!is_live && c->x.wait_until_ms > now + patience)
                c->x.wait_until_ms = now + patience;
        if (now < c->x.wait_until_ms) {
                client_arm_wait(c, wake_piece_ms(c, now));
                return;
        }
        routes_forget(c);
        c->x.route_wait = is_live ? WAIT_BUSY : WAIT_UNAVAILABLE;
        client_resume(c);
}

/* A user's server hangs up on idle connections when it likes; only what may be repeated takes that risk. */
static bool may_reuse(const struct exchange *x)
{
        return !x->must_be_fresh && (x->port == ENVD_PORT || x->is_idempotent);
}

static void dial(struct client *c)
{
        struct edge *e = c->edge;
        bool is_live = link_is_live(&e->dial_link);

        if (!c->x.dial_since_ms)
                c->x.dial_since_ms = clock_mono_ms();
        if (!dial_ask(e, c))
                answer_kind(c, ANSWER_UNAVAILABLE);
        else
                wait_for(c, CLIENT_DIAL, is_live ? e->limits->dial_timeout_ms : c->edge->limits->wait_timeout_ms);
}

/* The port is closed.  A server that is being started opens it in a moment, and nothing tells when: true, it is tried
 * again a little later. */
static bool wait_for_server(struct client *c)
{
        uint64_t passed = clock_mono_ms() - c->x.dial_since_ms, most = c->edge->limits->open_timeout_ms;
        unsigned pause = OPEN_RETRY_MS << c->x.closed_count;

        if (passed >= most || !routes_await_open(c))
                return false;
        c->x.closed_count++;
        c->x.dial_wait = WAIT_NOTHING;
        wait_for(c, CLIENT_DIAL, passed + pause < most ? pause : (unsigned)(most - passed));
        return true;
}

/* It stopped while it was being dialled: as if it had not been looked at yet. */
static void unhook_stopped(struct client *c)
{
        if (!c->x.sandbox || c->x.upstream || c->x.sandbox->route.is_running)
                return;
        routes_unhook(c);
        c->x.dial_wait = WAIT_NOTHING;
}

static void send_to_sandbox(struct client *c, const struct http1_head *h, struct str target,
                            const struct route_target *to)
{
        struct exchange *x = &c->x;
        struct sandbox *s;

        unhook_stopped(c);
        if (!find_sandbox(c, to->id, &s) || !look_again(c, to->id, &s))
                return;
        if (!check_token(c, h, s) || !check_count(c, s))
                return;
        if (!s->route.is_running && !x->upstream) { /* one that was dialled runs, whatever the news say */
                wake(c, h, s);
                return;
        }
        routes_hook(c, s);
        if (x->dial_wait == WAIT_REFUSED && wait_for_server(c))
                return;
        if (answer_wait(c, x->dial_wait, to->id))
                return;
        if (!x->upstream && may_reuse(x))
                x->upstream = upstream_reuse(c->edge, s, x->port);
        x->dial_wait = WAIT_NOTHING;
        if (!x->upstream) {
                dial(c);
                return;
        }
        routes_opened(c);
        send_request(c, h, target);
}

/* ---- where to ---- */

/* Control was, or was not, asked whose the request is. */
static void await_owner(struct client *c, enum routes_result asked, const char *too_many)
{
        switch (asked) {
        case ROUTES_WAIT: wait_for_control(c); break;
        case ROUTES_CROWDED: answer_api(c, 429, too_many); break;
        default: answer_api(c, 503, "the API is not available, try again"); break;
        }
}

/* A signed URL that names no sandbox.  true: x->id is whose it is.  Otherwise it waits or is answered. */
static bool find_signer(struct client *c, struct str method, struct str query)
{
        struct exchange *x = &c->x;

        if (x->id[0])
                return true;
        if (x->route_wait == WAIT_NOT_FOUND)
                answer_api(c, 401, "invalid signature");
        else
                await_owner(c, x->route_wait == WAIT_UNAVAILABLE ? ROUTES_FULL : signed_ask(c, method, query),
                            "too many URLs that nobody signed, try again");
        return false;
}

/* The same for a request with nothing but an access token.  One that is nobody's may have been a sandbox's that ended. */
static bool find_by_token(struct client *c, struct str token)
{
        struct exchange *x = &c->x;

        if (x->is_told)
                token_keep(c->edge, token, x->id);
        x->is_told = false;
        if (x->id[0] || token_find(c->edge, token, x->id))
                return true;
        if (x->route_wait == WAIT_NOT_FOUND || !token_is_wellformed(token))
                answer_kind(c, ANSWER_NOT_FOUND);
        else
                await_owner(c, x->route_wait == WAIT_UNAVAILABLE ? ROUTES_FULL : token_ask(c, token),
                            "too many access tokens that are nobody's, try again");
        return false;
}

static void note_request(struct client *c, const struct http1_head *h)
{
        struct exchange *x = &c->x;

        x->client_minor = h->minor;
        x->to_head = str_is(h->method, "HEAD");
        x->is_idempotent = is_idempotent(h->method);
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

static bool has_api_key(const struct http1_head *h)
{
        struct str bearer = http1_value(h, "authorization");

        return http1_value(h, "x-api-key").n || (bearer.n > 7 && str_ieq((struct str){bearer.p, 7}, STR("Bearer ")));
}

/* Where the request goes, as far as its head tells.  false: nowhere, and it is answered. */
static bool decide(struct client *c, const struct http1_head *h, struct route_target *to, struct str *ret_target)
{
        struct route_request rq = {.host = http1_value(h, "host"),
                                   .id = http1_value(h, "e2b-sandbox-id"),
                                   .port = http1_value(h, "e2b-sandbox-port"),
                                   .target = STR(""),
                                   .has_key = has_api_key(h),
                                   .has_token = http1_value(h, "x-access-token").n > 0};
        bool has_target = rewrite_target(h->method, h->target, rq.host, &rq.target);
        struct exchange *x = &c->x;

        route_decide(&rq, str_of(c->edge->conf->domain), to);
        x->is_api = to->kind == ROUTE_API;
        x->port = to->port;
        x->is_html = false;
        if (c->must_switch && (x->is_api || x->port == ENVD_PORT)) {
                answer_api(c, 400, "no tunnel leads there");
                return false;
        }
        if (to->kind == ROUTE_SANDBOX && sandbox_id_is_valid(to->id))
                memcpy(x->id, to->id.p, to->id.n);
        if (!has_target) {
                x->persists = false;
                answer_api(c, 400, "unsupported request target");
                return false;
        }
        if (to->kind == ROUTE_REFUSED)
                request_answer(c, &(struct answer){.kind = ANSWER_TEXT, .status = to->status, .message = to->message});
        *ret_target = rq.target;
        return to->kind != ROUTE_REFUSED;
}

void request_begin(struct client *c, const struct http1_head *h)
{
        struct exchange *x = &c->x;
        struct route_target to;
        struct str target, path, query;
        const char *reserved;

        note_request(c, h);
        if (!decide(c, h, &to, &target))
                return;
        if (to.kind != ROUTE_SANDBOX) {
                bool is_signed = signed_concerns(h->method, target, &query);

                if (!is_signed && to.kind == ROUTE_API) {
                        send_to_api(c, h, target);
                        return;
                }
                if (is_signed ? !find_signer(c, h->method, query) : !find_by_token(c, http1_value(h, "x-access-token")))
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
        send_to_sandbox(c, h, target, &to);
}

void request_on_wait_over(struct client *c)
{
        struct exchange *x = &c->x;

        switch (c->state) {
        case CLIENT_ROUTE:
                if (is_worth_waiting(c)) {
                        client_arm_wait(c, c->edge->limits->wait_timeout_ms);
                        break;
                }
                routes_forget(c);
                owner_forget(c);
                x->route_wait = WAIT_UNAVAILABLE;
                client_resume(c);
                break;
        case CLIENT_WAKE: go_on_waking(c); break;
        case CLIENT_DIAL:
                if (x->dial_req) { /* otherwise it was a pause */
                        x->dial_wait = link_is_live(&c->edge->dial_link) ? WAIT_REFUSED : WAIT_UNAVAILABLE;
                        dial_forget(c);
                }
                client_resume(c);
                break;
        case CLIENT_EXCHANGE:
                if (!x->is_api || x->has_answer || link_is_live(&c->edge->routes_link))
                        break;
                upstream_close(x->upstream);
                x->upstream = NULL;
                block_drop(&c->edge->blocks, &x->up.out);
                answer_api(c, 503, "the API is not available, try again");
                client_advance(c);
                break;
        default: break;
        }
}
