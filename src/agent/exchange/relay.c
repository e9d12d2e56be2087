#include "agent/exchange/relay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/exchange/exchange.h"
#include "base/buf.h"
#include "http/client.h"
#include "model/ids.h"

#define PIECE_MAX (256u << 10)
#define ANSWER_MAX (1u << 20)

struct relay {
        struct exchange *x;
        struct http_call *call; /* owned */
        const char *answer_type;
        void (*on_answer)(struct exchange *x, const struct ask_answer *a);
        bool is_foreign;   /* the answer comes out of a sandbox */
        bool is_passing;   /* the answer's head was passed on */
        struct buf answer; /* of an error, or of an answer that is read whole */
        /* the body, from the client to the other side */
        struct buf body;
        bool sends, body_is_over, sender_waits, reader_waits;
};

static void relay_free(struct exchange *x)
{
        struct relay *r = x->job;

        r->call = http_call_free(r->call);
        buf_done(&r->answer);
        buf_done(&r->body);
        free(r);
}

/* ---- the body ---- */

static size_t relay_body_data(struct http_request *rq, struct str piece)
{
        struct relay *r = ((struct exchange *)rq->user)->job;
        size_t room = buf_room(&r->body), n = piece.n < room ? piece.n : room;

        if (!r->call)
                return piece.n; /* the other side has answered already: the rest is not wanted */
        if (n && buf_add(&r->body, piece.p, n) < 0)
                n = 0;
        r->reader_waits = n < piece.n;
        if (r->sender_waits && n) {
                r->sender_waits = false;
                http_call_resume(r->call);
        }
        return n;
}

static void relay_body_end(struct http_request *rq)
{
        struct relay *r = ((struct exchange *)rq->user)->job;

        r->body_is_over = true;
        if (r->sender_waits && r->call) {
                r->sender_waits = false;
                http_call_resume(r->call);
        }
}

static ssize_t relay_on_send(struct http_call *call, void *to, size_t n, void *arg)
{
        struct relay *r = arg;

        (void)call;
        if (r->body.len == 0) {
                r->sender_waits = !r->body_is_over;
                return r->body_is_over ? 0 : -EAGAIN;
        }
        n = n < r->body.len ? n : r->body.len;
        memcpy(to, buf_at(&r->body), n);
        buf_consume(&r->body, n);
        if (r->reader_waits) {
                r->reader_waits = false;
                http_resume_body(r->x->rq);
        }
        return (ssize_t)n;
}

/* ---- the answer ---- */

static int64_t announced_length(const struct http1_head *head)
{
        return head->framing == HTTP1_BODY_LENGTH && head->content_length <= INT64_MAX ? (int64_t)head->content_length
                                                                                       : -1;
}

static void relay_on_head(struct http_call *call, void *arg)
{
        struct relay *r = arg;
        const struct http1_head *head = http_call_head(call);
        AUTO_FREE char *type = NULL;

        if (head->status != 200 || r->on_answer)
                return;
        type = r->answer_type ? strdup(r->answer_type) : str_dup(http1_value(head, "Content-Type"));
        r->is_passing = true;
        tell_begin(r->x, 200, type && type[0] ? type : "application/octet-stream", announced_length(head));
}

static size_t relay_on_data(struct http_call *call, struct str piece, void *arg)
{
        struct relay *r = arg;

        (void)call;
        if (!r->is_passing) {
                size_t room = buf_room(&r->answer);

                (void)buf_add(&r->answer, piece.p, piece.n < room ? piece.n : room);
                return piece.n;
        }
        if (http_is_full(r->x->rq))
                return 0; /* relay_drained() */
        (void)http_write(r->x->rq, piece.p, piece.n);
        return piece.n;
}

static void relay_drained(struct exchange *x)
{
        struct relay *r = x->job;

        if (r->call)
                http_call_resume(r->call);
}

static void relay_on_end(struct http_call *call, const struct err *why, void *arg)
{
        struct relay *r = arg;
        struct exchange *x = r->x;
        struct ask_answer a = {0};
        struct err failure = {0};
        bool is_passing = r->is_passing;

        if (why)
                failure = *why;
        if (is_passing && why) {
                http_abort(x->rq);
        } else if (is_passing) {
                http_end(x->rq);
        } else if (why) {
                ask_answer_failure(x, &failure);
        } else {
                a.status = http_call_head(call)->status;
                a.head = http_call_head(call);
                a.is_foreign = r->is_foreign;
                a.body = json_loadb(r->answer.len ? (const char *)buf_at(&r->answer) : "", r->answer.len, 0, NULL);
                if (r->on_answer)
                        r->on_answer(x, &a);
                else
                        ask_pass_error(x, &a);
                json_decref(a.body);
        }
        r->call = http_call_free(r->call);
        if (r->reader_waits)
                http_resume_body(x->rq);
}

static int relay_start(struct relay *r, const struct relay_options *o, struct err *err)
{
        const struct http1_head *head = r->x->rq->head;
        struct ask_headers h = {0};

        if (o->to == ASK_DAEMON)
                ask_headers_of(r->x, ENVD_PORT, &h);
        else
                h.list[h.count++] = (struct http_header){"X-API-Key", r->x->key};
        if (o->header)
                h.list[h.count++] = *o->header;
        return http_call_start(r->x->agent->edge_patient,
                               &(struct http_call_options){.method = o->method,
                                                           .target = o->target,
                                                           .headers = h.list,
                                                           .content_type = o->sends_body ? o->content_type : NULL,
                                                           .on_send = o->sends_body ? relay_on_send : NULL,
                                                           .send_bytes = o->sends_body ? announced_length(head) : 0,
                                                           .on_head = relay_on_head,
                                                           .on_data = relay_on_data,
                                                           .on_end = relay_on_end,
                                                           .arg = r},
                               &r->call, err);
}

void relay(struct exchange *x, const struct relay_options *o)
{
        struct relay *r = calloc(1, sizeof(*r));
        struct err err = {0};

        if (!r) {
                tell_no_memory(x);
                return;
        }
        *r = (struct relay){.x = x,
                            .answer_type = o->answer_type,
                            .on_answer = o->on_answer,
                            .is_foreign = o->to == ASK_DAEMON || o->to == ASK_PORT,
                            .answer = BUF_INIT(ANSWER_MAX),
                            .body = BUF_INIT(PIECE_MAX),
                            .body_is_over = x->rq->head->framing == HTTP1_BODY_NONE};
        x->job = r;
        x->job_free = relay_free;
        x->on_drain = relay_drained;
        if (relay_start(r, o, &err) < 0)
                tell_err(x, &err);
        else if (o->sends_body && !r->body_is_over)
                http_stream_body(x->rq, relay_body_data, relay_body_end);
}
