#include <errno.h>

#include "edge/http1/h1_conn.h"
#include "edge/message/answer.h"
#include "edge/message/rewrite.h"
#include "edge/proxy/edge.h"
#include "edge/route/upstream.h"

enum flow_step h1_answer_flush(struct edge_client *c)
{
        return flow_flush(&c->x.down, &c->edge->blocks, &h1_of(c)->conn.stream);
}

enum flow_step h1_answer_interim(struct edge_client *c, const struct http1_head *head)
{
        struct edge *e = c->edge;

        if (c->x.client_minor == 0) /* HTTP/1.0 has no interim answers */
                return FLOW_DONE;
        buf_reset(&e->out);
        if (rewrite_response(&(struct rewrite_response){.head = head}, &e->out) < 0)
                return FLOW_DEAD;
        return flow_say(&c->x.down, &e->blocks, &e->out, &h1_of(c)->conn.stream);
}

void h1_answer_switch_over(struct edge_client *c, const struct http1_head *head)
{
        struct edge *e = c->edge;

        buf_reset(&e->out);
        c->x.persists = false;
        if (rewrite_response(&(struct rewrite_response){.head = head, .is_upgrade = true}, &e->out) < 0 ||
            flow_say(&c->x.down, &e->blocks, &e->out, &h1_of(c)->conn.stream) == FLOW_DEAD)
                edge_client_cut(c);
        else
                edge_client_go(c, CLIENT_TUNNEL);
}

enum flow_step h1_answer_begin(struct edge_client *c, const struct http1_head *head)
{
        struct proxy_exchange *x = &c->x;
        struct edge *e = c->edge;
        size_t none = 0;
        bool has_unknown_length = head->framing == HTTP1_BODY_CHUNKED || head->framing == HTTP1_BODY_EOF;
        bool is_chunked = has_unknown_length && x->client_minor >= 1;

        if ((has_unknown_length && !is_chunked) || (x->expects_continue && !exchange_is_sent(x)) || e->is_stopping)
                x->persists = false;
        buf_reset(&e->out);
        if (rewrite_response(&(struct rewrite_response){.head = head,
                                                        .is_chunked = is_chunked,
                                                        .says_close = !x->persists,
                                                        .says_persist = x->client_minor == 0},
                             &e->out) < 0)
                return FLOW_BAD;
        flow_init(&x->down, head, is_chunked);
        return flow_pump(&x->down, &e->blocks, &x->visit.upstream->in, &none, &e->out, &h1_of(c)->conn.stream);
}

/* Upstream sends no more and the body is not complete: either that is the end of the body, or the answer is broken. */
static enum flow_step h1_answer_end_body(struct edge_client *c)
{
        struct proxy_exchange *x = &c->x;

        if (x->down.body.framing == HTTP1_BODY_EOF && x->visit.upstream->input != UPSTREAM_FAILED)
                return flow_finish(&x->down, &c->edge->blocks, &h1_of(c)->conn.stream);
        return FLOW_BAD;
}

enum flow_step h1_answer_pull(struct edge_client *c)
{
        struct proxy_exchange *x = &c->x;
        enum flow_step step;
        size_t none = 0;

        step = flow_pump(&x->down, &c->edge->blocks, &x->visit.upstream->in, &none, NULL, &h1_of(c)->conn.stream);
        return step == FLOW_MORE && upstream_is_over(x->visit.upstream) ? h1_answer_end_body(c) : step;
}

bool h1_answer_splice(struct edge_client *c)
{
        struct stream *sink = &h1_of(c)->conn.stream;
        struct upstream *u = c->x.visit.upstream;

        return exchange_is_answered(&c->x) && !stream_is_tls(sink) && u->in.len == 0 && splice_fits(&c->x.down) &&
               splice_take(&c->edge->splices, &c->x.down, u->stream.io.fd, sink->io.fd);
}

int h1_answer_say(struct edge_client *c, const struct answer *a)
{
        struct edge *e = c->edge;
        int r;

        h1_of(c)->scan = (struct head_scan){0};
        buf_reset(&e->out);
        r = answer_write(a, &e->out);
        if (r < 0)
                return r;
        if (flow_say(&c->x.down, &e->blocks, &e->out, &h1_of(c)->conn.stream) == FLOW_DEAD)
                return -EPIPE;
        c->x.down.is_ended = true;
        return 0;
}
