#include <errno.h>
#include <stdio.h>

#include "edge/http2/h2_session.h"
#include "edge/http2/h2_stream.h"
#include "edge/message/rewrite.h"
#include "edge/proxy/edge.h"

#define FIELDS_MAX (HTTP1_HEADERS_MAX + 4)

struct h2_fields { /* of one answer; the library copies the fields, and turns names into lower case */
        nghttp2_nv nv[FIELDS_MAX];
        size_t count;
        char status[4], length[24];
};

static void h2_fields_add(struct h2_fields *f, struct str name, struct str value)
{
        f->nv[f->count++] = (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name.p,
                                         .namelen = name.n,
                                         .value = (uint8_t *)(uintptr_t)value.p,
                                         .valuelen = value.n};
}

static void h2_fields_add_status(struct h2_fields *f, unsigned status)
{
        f->count = 0;
        (void)snprintf(f->status, sizeof(f->status), "%03u", status % 1000);
        h2_fields_add(f, STR(":status"), (struct str){f->status, 3});
}

static void h2_fields_add_length(struct h2_fields *f, uint64_t n)
{
        int len = snprintf(f->length, sizeof(f->length), "%llu", (unsigned long long)n);

        h2_fields_add(f, STR("content-length"), (struct str){f->length, (size_t)len});
}

static void h2_fields_collect(struct h2_fields *f, const struct http1_head *head, unsigned status)
{
        h2_fields_add_status(f, status);
        for (size_t i = 0; i < head->header_count; i++) {
                const struct http1_header *from = &head->headers[i];

                if (!rewrite_is_dropped(head, from->name))
                        h2_fields_add(f, from->name, from->value);
        }
}

/* Give the library the answer's head, and tell it where the body comes from.  FLOW_FULL: the answer is sent by and by. */
static enum flow_step h2_answer_submit(struct edge_client *c, const struct h2_fields *f, bool has_body)
{
        struct h2_stream *st = h2_stream_of(c);
        const nghttp2_data_provider source = {.read_callback = h2_stream_read};

        if (!st->h2->session || !st->is_open)
                return FLOW_DEAD;
        if (nghttp2_submit_response(st->h2->session, st->id, f->nv, f->count, has_body ? &source : NULL) < 0)
                return FLOW_DEAD;
        h2_session_changed(st->h2);
        return FLOW_FULL;
}

enum flow_step h2_answer_interim(struct edge_client *c, const struct http1_head *head)
{
        struct h2_stream *st = h2_stream_of(c);
        struct h2_fields f;

        if (!st->h2->session || !st->is_open)
                return FLOW_DEAD;
        h2_fields_collect(&f, head, head->status);
        if (nghttp2_submit_headers(st->h2->session, NGHTTP2_FLAG_NONE, st->id, NULL, f.nv, f.count, NULL) < 0)
                return FLOW_DEAD;
        h2_session_changed(st->h2);
        return FLOW_DONE;
}

/* RFC 8441: the 101 of HTTP/1.1 is a 200 in HTTP/2, and the stream is the tunnel. */
void h2_answer_switch_over(struct edge_client *c, const struct http1_head *head)
{
        struct h2_stream *st = h2_stream_of(c);
        struct proxy_exchange *x = &c->x;
        struct h2_fields f;

        h2_fields_collect(&f, head, 200);
        for (size_t i = 0; i < f.count; i++)
                if (str_iis((struct str){(const char *)f.nv[i].name, f.nv[i].namelen}, "sec-websocket-accept"))
                        f.nv[i--] = f.nv[--f.count];
        st->is_tunnel = true;
        exchange_tunnel_began(x);
        x->status = 200;
        x->up.body.framing = x->down.body.framing = HTTP1_BODY_EOF; /* bytes as they are, until either end */
        x->up.is_chunked = x->up.is_ended = x->down.is_ended = false;
        if (h2_answer_submit(c, &f, true) == FLOW_DEAD)
                edge_client_cut(c);
        else
                h2_stream_touch(st); /* the client may have sent bytes already */
}

enum flow_step h2_answer_begin(struct edge_client *c, const struct http1_head *head)
{
        struct h2_fields f;
        bool has_body =
                head->framing != HTTP1_BODY_NONE && !(head->framing == HTTP1_BODY_LENGTH && head->content_length == 0);
        struct str absent = http1_value(head, "content-length");

        h2_fields_collect(&f, head, head->status);
        if (head->framing == HTTP1_BODY_LENGTH)
                h2_fields_add_length(&f, head->content_length);
        else if (head->framing == HTTP1_BODY_NONE && absent.n && head->status != 204)
                h2_fields_add(&f, STR("content-length"), absent); /* of a body that is not sent (HEAD, 304) */
        flow_init(&c->x.down, head, false);
        c->x.down.is_ended = !has_body;
        return h2_answer_submit(c, &f, has_body);
}

int h2_answer_say(struct edge_client *c, const struct answer *a)
{
        struct edge *e = c->edge;
        struct block *out = &c->x.down.out;
        struct h2_fields f;
        const char *type;
        int r;

        buf_reset(&e->out);
        r = answer_body(a, &e->out, &type);
        if (r == 0)
                r = block_need(&e->blocks, out);
        if (r < 0)
                return r;
        h2_fields_add_status(&f, answer_status(a));
        h2_fields_add(&f, STR("content-type"), str_of(type));
        h2_fields_add_length(&f, e->out.len);
        if (!a->to_head) {
                memcpy(out->mem, buf_at(&e->out), e->out.len); /* at most ANSWER_BODY_MAX */
                out->start = 0;
                out->len = e->out.len;
        }
        return h2_answer_submit(c, &f, !a->to_head) == FLOW_DEAD ? -EPIPE : 0;
}
