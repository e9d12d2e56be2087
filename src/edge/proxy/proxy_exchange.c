#include "edge/proxy/proxy_exchange.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "edge/message/answer.h"
#include "edge/proxy/edge.h"
#include "edge/proxy/edge_client.h"
#include "edge/proxy/request.h"
#include "edge/route/dial.h"
#include "edge/route/routes.h"
#include "edge/route/signed_url.h"
#include "edge/route/upstream.h"

/* ---- ending ---- */

static void exchange_log(const struct edge_client *c)
{
        const struct proxy_exchange *x = &c->x;
        uint64_t ms = x->started_us ? (clock_mono_us() - x->started_us) / 1000 : 0;
        char method[LOG_ESCAPED_MAX];

        log_event(c->edge->conf->access_log ? LOG_INFO : LOG_DEBUG, "exchange",
                  "proto=%s sandbox=%s port=%u method=%s status=%u in=%llu out=%llu ms=%llu", c->kind->name,
                  x->visit.id[0] ? x->visit.id : "-", x->visit.port, log_escape(str_of(x->method), method), x->status,
                  (unsigned long long)x->up.sent_bytes, (unsigned long long)x->down.sent_bytes, (unsigned long long)ms);
}

static void exchange_release_upstream(struct proxy_exchange *x)
{
        struct upstream *u = x->visit.upstream;
        bool is_whole = x->state == EXCHANGE_ANSWERED_SENT && x->down.is_ended;

        if (!u)
                return;
        x->visit.upstream = NULL;
        if (is_whole && x->upstream_persists && !upstream_is_over(u) && u->in.len == 0)
                upstream_keep(u);
        else
                upstream_close(u);
}

void proxy_exchange_done(struct edge_client *c)
{
        struct proxy_exchange *x = &c->x;

        if ((x->status || x->started_us) && c->edge->is_logging) /* status 0: ended before there was an answer */
                exchange_log(c);
        x->status = 0;
        x->method[0] = 0;
        visit_leave(&x->visit);
        exchange_release_upstream(x);
        routes_unhook(&c->x.visit);
        x->visit.route_result = x->visit.dial_result = WAIT_NOTHING;
        x->needs_new_connection = x->has_asked_again = x->visit.id_is_news = false;
        x->wait_until_ms = x->started_us = x->dial_since_ms = 0;
        x->closed_count = 0;
        x->visit.id[0] = 0;
        x->visit.port = 0;
        x->up.sent_bytes = x->down.sent_bytes = 0;
}

/* Upstream broke before there was an answer: answer in its place.  When the sandbox is being stopped, that is the reason, and
 * whether the sandbox acted on the request is not known: then the client is cut. */
static void exchange_answer_for_upstream(struct edge_client *c)
{
        struct proxy_exchange *x = &c->x;
        struct answer a = {.kind = ANSWER_PORT_CLOSED};

        if (x->visit.sandbox && !x->visit.sandbox->route.is_running) {
                edge_client_cut(c);
                return;
        }
        if (x->is_api)
                a = (struct answer){.kind = ANSWER_API, .status = 503, .message = "the API is restarting, try again"};
        upstream_close(x->visit.upstream);
        x->visit.upstream = NULL;
        block_drop(&c->edge->blocks, &x->up.out);
        request_answer(c, &a);
}

/* ---- the request ---- */

/* Before the first byte of an answer a request may be sent again, on a new connection, if upstream cannot have acted on the
 * request, or if acting twice does no harm. */
static bool exchange_may_repeat(const struct edge_client *c)
{
        const struct proxy_exchange *x = &c->x;

        return x->visit.upstream->is_reused && !x->needs_new_connection && x->interim_count == 0 &&
               x->visit.upstream->in.len == 0 && c->head_len > 0 && (x->is_idempotent || x->up.sent_bytes == 0);
}

static void exchange_repeat(struct edge_client *c)
{
        struct proxy_exchange *x = &c->x;

        upstream_close(x->visit.upstream);
        x->visit.upstream = NULL;
        x->needs_new_connection = true;
        block_drop(&c->edge->blocks, &x->up.out);
        exchange_reset(x);
        edge_client_go(c, CLIENT_HEAD);
}

bool proxy_exchange_repeats(struct edge_client *c)
{
        if (c->state != CLIENT_EXCHANGE || !c->x.visit.upstream || !exchange_may_repeat(c))
                return false;
        exchange_repeat(c);
        routes_unhook(&c->x.visit);
        return true;
}

static void exchange_push_request(struct edge_client *c)
{
        struct proxy_exchange *x = &c->x;

        switch (c->kind->push(c, NULL)) {
        case FLOW_MORE:
        case FLOW_FULL: break;
        case FLOW_DONE: exchange_request_ended(x); break;
        case FLOW_DEAD: exchange_request_refused(x); break; /* upstream may have answered before it hung up */
        case FLOW_BAD:
                x->persists = false;
                if (exchange_is_answered(x)) {
                        edge_client_cut(c);
                        return;
                }
                exchange_request_ended(x);
                upstream_close(x->visit.upstream);
                x->visit.upstream = NULL;
                block_drop(&c->edge->blocks, &x->up.out);
                request_answer(c, &(struct answer){.kind = ANSWER_API, .status = 400, .message = "malformed body"});
                break;
        }
}

/* ---- the answer ---- */

/* From here on the request cannot be repeated: its head is dropped. */
static void exchange_drop_request_head(struct edge_client *c)
{
        block_consume(&c->in, c->head_len);
        c->head_len = 0;
}

static enum flow_step exchange_pass_interim(struct edge_client *c, const struct http1_head *h)
{
        if (h->status == 100 && !c->x.expects_continue)
                return FLOW_DONE; /* clients do not expect a 100 that they did not ask for */
        return c->kind->interim(c, h);
}

/* While nothing of the answer is sent, the edge can still give another one.  Does the part of the body that is there keep to
 * its framing? */
static bool body_begins_well(const struct http1_head *h, const struct block *in)
{
        struct http1_body trial;
        size_t at = 0;

        if (h->framing != HTTP1_BODY_CHUNKED)
                return true;
        http1_body_init(&trial, h);
        while (at < in->len && !http1_body_is_done(&trial)) {
                size_t used = 0;
                struct str data;
                enum http1_step step = http1_body_feed(&trial, block_at(in) + at, in->len - at, &used, &data);

                if (step == HTTP1_BAD || step == HTTP1_TOO_BIG)
                        return false;
                if (used == 0)
                        break;
                at += used;
        }
        return true;
}

static enum flow_step exchange_start_answer(struct edge_client *c, const struct http1_head *h)
{
        struct proxy_exchange *x = &c->x;

        exchange_answer_began(x);
        x->status = h->status;
        x->upstream_persists = h->keep_alive;
        return c->kind->begin(c, h);
}

enum head_step { HEAD_MORE, HEAD_BAD, HEAD_INTERIM, HEAD_SWITCH, HEAD_FINAL };

static enum head_step exchange_read_answer_head(struct edge_client *c, size_t *ret_len)
{
        struct proxy_exchange *x = &c->x;
        struct upstream *u = x->visit.upstream;
        struct http1_head *h = &c->edge->head;

        if (u->in.len == 0 || !head_scan_is_due(&u->scan, block_at(&u->in), u->in.len))
                return HEAD_MORE;
        *h = (struct http1_head){0};
        switch (http1_parse_response(h, block_at(&u->in), u->in.len, x->to_head, ret_len)) {
        case HTTP1_MORE: return HEAD_MORE;
        case HTTP1_DONE: break;
        default: return HEAD_BAD;
        }
        u->scan = (struct head_scan){0};
        if (h->status == 101) /* only for a client that asked for it, and has sent all of its request */
                return x->is_upgrade && exchange_is_sent(x) && h->is_upgrade ? HEAD_SWITCH : HEAD_BAD;
        if (h->status >= 200) /* 2xx would tell the client that there is a tunnel */
                return c->must_switch && h->status < 300 ? HEAD_BAD : HEAD_FINAL;
        return ++x->interim_count > c->edge->limits->interim_max ? HEAD_BAD : HEAD_INTERIM;
}

/* Take the heads of the answer that upstream has sent; true: go on with the body. */
static bool exchange_pull_head(struct edge_client *c, enum flow_step *ret_step)
{
        struct proxy_exchange *x = &c->x;
        struct upstream *u = x->visit.upstream;
        size_t len;

        if (x->down.out.len && c->kind->flush(c) == FLOW_DEAD) { /* an interim answer that is not yet sent goes first */
                edge_client_close(c);
                return false;
        }
        while (!x->down.out.len) {
                enum head_step step = exchange_read_answer_head(c, &len);

                if (step == HEAD_MORE) {
                        if (upstream_is_over(u) && exchange_may_repeat(c))
                                exchange_repeat(c);
                        else if (upstream_is_over(u))
                                exchange_answer_for_upstream(c);
                        return false;
                }
                if (step == HEAD_BAD) {
                        exchange_answer_for_upstream(c);
                        return false;
                }
                exchange_drop_request_head(c);
                /* The head's bytes stay in place while the head is in use: consuming only moves a mark. */
                block_consume(&u->in, len);
                if (step == HEAD_SWITCH) {
                        c->kind->switch_over(c, &c->edge->head);
                        return false;
                }
                if (step == HEAD_FINAL && !body_begins_well(&c->edge->head, &u->in)) {
                        exchange_answer_for_upstream(c);
                        return false;
                }
                if (step == HEAD_FINAL) {
                        *ret_step = exchange_start_answer(c, &c->edge->head);
                        return true;
                }
                if (exchange_pass_interim(c, &c->edge->head) == FLOW_DEAD) {
                        edge_client_close(c);
                        return false;
                }
        }
        return false;
}

static void exchange_pull_answer(struct edge_client *c)
{
        struct proxy_exchange *x = &c->x;
        enum flow_step step = FLOW_MORE;

        if (!exchange_is_answered(x) && !exchange_pull_head(c, &step))
                return;
        if (step == FLOW_MORE)
                step = c->kind->pull(c);
        switch (step) {
        case FLOW_MORE:
        case FLOW_FULL: break;
        case FLOW_DONE: edge_client_finish(c); break;
        case FLOW_BAD: edge_client_cut(c); break; /* never a clean end for half an answer */
        case FLOW_DEAD: edge_client_close(c); break;
        }
}

void proxy_exchange_step(struct edge_client *c)
{
        struct proxy_exchange *x = &c->x;

        if (exchange_is_sending(x))
                exchange_push_request(c);
        if (c->state == CLIENT_EXCHANGE)
                exchange_pull_answer(c);
}

void proxy_exchange_on_upstream(struct edge_client *c, uint32_t events)
{
        struct upstream *u = c->x.visit.upstream;
        bool wants = !upstream_is_over(u) && !flow_waits(&c->x.down) && block_room(&u->in) >= BLOCK_READ_MIN;

        if ((events & (EPOLLERR | EPOLLHUP)) && !wants) {
                exchange_request_refused(&c->x);
                upstream_park(u);
                return;
        }
        if (c->state == CLIENT_EXCHANGE && c->kind->splice && c->kind->splice(c)) {
                edge_client_advance(c);
                return;
        }
        if (events & (EPOLLIN | EPOLLERR | EPOLLHUP))
                (void)upstream_fill(u); /* u->input says how it went */
        edge_client_advance(c);
}
