#include "base/clock.h"
#include "edge/proxy/edge.h"
#include "edge/proxy/request.h"
#include "edge/proxy/request_parts.h"
#include "edge/route/resume.h"

#define PORT_RETRY_MS 10u /* and twice as long each time */

/* true: the wait ended with a refusal, and the request is answered. */
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

/* The wait is made of pieces.  After each one request_may_wait_on() looks whether control is there: if so the request waits
 * longer. */
void request_wait_for_control(struct edge_client *c)
{
        c->x.route_until_ms = clock_mono_ms() + c->edge->limits->route_timeout_ms;
        request_wait(c, CLIENT_ROUTE, c->edge->limits->wait_timeout_ms);
}

bool request_may_wait_on(const struct edge_client *c)
{
        const struct routed_sandbox *s = c->x.visit.waits_for;

        if (s && s->asks == ASKS_NOTHING)
                return false; /* there was no memory to ask control */
        return process_link_is_live(&c->edge->routes.link) && clock_mono_ms() < c->x.route_until_ms;
}

/* true: *ret is the sandbox, running or paused.  Otherwise the request waits or is answered. */
static bool request_find_sandbox(struct edge_client *c, struct str id, struct routed_sandbox **ret)
{
        struct proxy_exchange *x = &c->x;
        enum answer_kind kind = ANSWER_UNAVAILABLE;

        if (x->visit.sandbox) { /* hooked already, before a wait for a socket */
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

/* The sandbox is being paused, and the engine knew before this edge did.  Control is asked once more: on that channel the news
 * of the pause comes before the answer. */
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

        if (most == 0 || c->x.visit.sandbox || s->live_count < most) /* hooked visits are counted already */
                return true;
        request_answer(c, &(struct answer){.kind = ANSWER_TOO_MANY, .limit = most});
        return false;
}

/* How long the next piece of the wait for a resume may be: after each one the edge looks whether control is there. */
static unsigned resume_piece_ms(const struct edge_client *c, uint64_t now)
{
        uint64_t left = c->x.wait_until_ms - now, most = c->edge->limits->wait_timeout_ms;

        return (unsigned)(left < most ? left : most);
}

/* The sandbox is paused: the request waits until it runs, with its body unread. */
static void request_resume_sandbox(struct edge_client *c, const struct http1_head *h, struct routed_sandbox *s)
{
        const struct edge_limits *limits = c->edge->limits;
        uint64_t now = clock_mono_ms();

        if (!c->x.wait_until_ms)
                c->x.wait_until_ms = now + limits->resume_timeout_ms;
        if (now >= c->x.wait_until_ms) { /* the sandbox was resumed and paused again, and so on */
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

/* A piece of the wait for a resume is over. */
void request_wait_on_for_resume(struct edge_client *c)
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

/* A user's server may close an idle connection at any time; only a request that may be repeated takes that risk. */
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

/* The port is closed.  A server that is being started opens its port in a moment, and there is no event for that.  true: the
 * port is dialled again a little later. */
static bool request_wait_for_port(struct edge_client *c)
{
        uint64_t passed = clock_mono_ms() - c->x.dial_since_ms, most = c->edge->limits->port_timeout_ms;
        unsigned pause = PORT_RETRY_MS << c->x.closed_count;

        if (passed >= most || !routes_await_port(&c->x.visit))
                return false;
        c->x.closed_count++;
        c->x.visit.dial_result = WAIT_NOTHING;
        request_wait(c, CLIENT_DIAL, passed + pause < most ? pause : (unsigned)(most - passed));
        return true;
}

/* The sandbox stopped while it was being dialled: begin again as if it had not been looked at yet. */
static void request_unhook_stopped(struct edge_client *c)
{
        if (!c->x.visit.sandbox || c->x.visit.upstream || c->x.visit.sandbox->route.is_running)
                return;
        routes_unhook(&c->x.visit);
        c->x.visit.dial_result = WAIT_NOTHING;
}

void request_send_to_sandbox(struct edge_client *c, const struct http1_head *h, struct str target,
                             const struct route_target *to)
{
        struct proxy_exchange *x = &c->x;
        struct routed_sandbox *s;

        request_unhook_stopped(c);
        if (!request_find_sandbox(c, to->id, &s) || !request_ask_again(c, to->id, &s))
                return;
        if (!request_check_token(c, h, s) || !request_check_count(c, s))
                return;
        if (!s->route.is_running &&
            !x->visit.upstream) { /* a sandbox with a socket runs, even if the route says otherwise */
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
