#include <string.h>

#include "edge/message/rewrite.h"
#include "edge/proxy/edge.h"
#include "edge/proxy/request.h"
#include "edge/proxy/request_parts.h"

#define MASKED_MAX (ROUTE_TEXT_MAX * 2)

void request_answer(struct edge_client *c, const struct answer *a)
{
        struct proxy_exchange *x = &c->x;
        struct answer full = *a;

        if (!full.sandbox_id.p)
                full.sandbox_id = str_of(x->visit.id);
        if (full.kind == ANSWER_API && x->is_agent)
                full.kind = ANSWER_AGENT;
        full.port = x->visit.port;
        full.is_html = x->is_html;
        full.to_head = x->to_head;
        if (x->expects_continue && !exchange_is_sent(x))
                x->persists = false; /* the client may send the body now, or not */
        if (c->edge->is_stopping)
                x->persists = false;
        full.says_close = !x->persists;
        routes_unhook(&c->x.visit); /* what happens to the sandbox from here on does not change the answer */
        edge_client_answer(c, &full);
}

void request_answer_kind(struct edge_client *c, enum answer_kind kind)
{
        request_answer(c, &(struct answer){.kind = kind});
}

void request_answer_api(struct edge_client *c, unsigned status, const char *message)
{
        request_answer(c, &(struct answer){.kind = ANSWER_API, .status = status, .message = message});
}

void request_wait(struct edge_client *c, enum edge_client_state state, unsigned ms)
{
        edge_client_go(c, state);
        edge_client_arm_wait(c, ms);
}

/* ---- sending ---- */

/* Requests in a tunnel are not checked, so only the user's own ports get tunnels, and never for HTTP/2. */
static bool request_may_upgrade(const struct edge_client *c, const struct http1_head *h)
{
        return h->is_upgrade && !c->x.is_api && c->x.visit.port != ENVD_PORT && !http1_has_token(h, "upgrade", "h2c");
}

/* "https", if that is what the client wrote before "://": for links in the API's answers.  A proxy in front of us may say so; a
 * client that lies gets a link that does not work. */
static struct str request_scheme(const struct edge_client *c, const struct http1_head *h)
{
        return c->is_tls || str_iis(http1_value(h, "x-forwarded-proto"), "https") ? STR("https") : STR("");
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
        if (c->x.is_api)
                rq.scheme = request_scheme(c, h);
        return rewrite_request(&rq, out);
}

void request_send(struct edge_client *c, const struct http1_head *h, struct str target)
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
        case FLOW_DEAD: exchange_request_refused(x); break; /* reading from upstream tells why */
        case FLOW_BAD:
                x->persists = false;
                exchange_request_ended(x);
                upstream_close(x->visit.upstream);
                x->visit.upstream = NULL;
                request_answer_api(c, 400, "malformed body");
                break;
        }
}
