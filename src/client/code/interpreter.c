#include "client/code/interpreter.h"

#include <errno.h>

#include "client/sandbox/rest.h"

#define REFUSAL_MAX (64u << 10)
#define TARGET_MAX 4096u

/* What a refusal means: the edge answers for a port where nothing listens, and something else may listen there. */
static int refused(struct sg_sandbox *box, unsigned status, struct str body, struct limit *l, struct sg_error *err)
{
        json_t *got = body.n ? json_loadb(body.p, body.n, JSON_DECODE_ANY, NULL) : NULL;
        bool is_json = got != NULL;
        int r;

        json_decref(got);
        if (status == 502 || status == 503)
                r = error_set(
                        err, SG_UNAVAILABLE,
                        "nothing answers on port %u of sandbox %s: its template has no code interpreter; create the "
                        "sandbox from code-interpreter-v1",
                        INTERPRETER_PORT, box->id);
        else if ((status == 404 && is_json) || status == 405)
                r = error_set(err, SG_UNSUPPORTED, "what answers on port %u of sandbox %s is no code interpreter",
                              INTERPRETER_PORT, box->id);
        else
                r = error_refused(err, status, 0, body);
        if (err)
                err->http_status = (int)status;
        return box_explain(box, l, r, err);
}

/* ---- runs ---- */

struct execution {
        struct interpreter_stream *s;
        struct buf refusal;
        unsigned status;
        bool is_over;
        int r; /* negative: on_body wants no more, `why` says why */
        struct sg_error why;
        struct err cut; /* ERR_NONE: the answer is complete */
};

static void run_head(struct http_call *call, void *arg)
{
        struct execution *x = arg;

        x->status = http_call_head(call)->status;
}

static size_t run_data(struct http_call *call, struct str piece, void *arg)
{
        struct execution *x = arg;
        size_t room = buf_room(&x->refusal);

        (void)call;
        if (x->status != 200)
                (void)buf_add(&x->refusal, piece.p, piece.n < room ? piece.n : room);
        else if (x->r == 0)
                x->r = x->s->on_body(piece, x->s->lane->loop, x->s->arg, &x->why);
        if (x->r < 0)
                loop_stop(x->s->lane->loop);
        return piece.n;
}

static void run_end(struct http_call *call, const struct err *why, void *arg)
{
        struct execution *x = arg;

        (void)call;
        if (why)
                x->cut = *why;
        x->is_over = true;
        loop_stop(x->s->lane->loop);
}

static int execution_outcome(struct execution *x, struct sg_sandbox *box, int r, struct limit *l, struct sg_error *err)
{
        if (x->r < 0)
                return error_pass(err, &x->why);
        if (!x->is_over)
                return r;
        if (x->status && x->status != 200)
                return refused(box, x->status, (struct str){(const char *)buf_at(&x->refusal), x->refusal.len}, l, err);
        if (x->cut.kind == ERR_NONE)
                return 0;
        r = error_from(err, &x->cut);
        return box_explain(box, l, r, err);
}

int interpreter_stream(struct sg_sandbox *box, struct interpreter_stream *s, struct str body, struct limit *l,
                       struct sg_error *err)
{
        AUTO(box_headers_done) struct box_headers headers = {0};
        struct execution x = {.s = s, .refusal = BUF_INIT(REFUSAL_MAX)};
        struct http_call *call = NULL;
        struct err why = {0};
        int r = box_headers_fill(&headers, box, INTERPRETER_PORT, NULL, err);

        if (r == 0)
                r = lane_take(box->client, headers.url, l, &s->lane, err);
        if (r < 0)
                return r;
        r = http_call_start(s->lane->http,
                            &(struct http_call_options){.method = "POST",
                                                        .target = "/execute",
                                                        .headers = headers.list,
                                                        .content_type = "application/json",
                                                        .body = body,
                                                        .agent = box->client->agent,
                                                        .reuses_connection = true,
                                                        .on_head = run_head,
                                                        .on_data = run_data,
                                                        .on_end = run_end,
                                                        .arg = &x},
                            &call, &why);
        r = r < 0 ? error_from(err, &why) : limit_run(l, s->lane->loop, err);
        r = call ? execution_outcome(&x, box, r, l, err) : r;
        (void)http_call_free(call);
        timer_clear(&s->linger);
        lane_give_back(box->client, s->lane);
        s->lane = NULL;
        buf_done(&x.refusal);
        return r;
}

/* ---- small requests ---- */

int interpreter_call(struct sg_sandbox *box, const struct interpreter_call *c, const struct sg_call *call, json_t **ret,
                     struct sg_error *err)
{
        AUTO_FREE char *text = c->body ? json_dumps(c->body, JSON_COMPACT) : NULL;
        AUTO(exchange_answer_done) struct exchange_answer answer = {0};
        AUTO(box_headers_done) struct box_headers headers = {0};
        AUTO_BUF struct buf target = BUF_INIT(TARGET_MAX);
        bool has_body = c->body != NULL;
        struct limit l;
        int r = has_body && !text ? error_no_memory(err) : limit_begin(&l, call, c->usual_ms, err);

        json_decref(c->body);
        if (r == 0)
                r = box_headers_fill(&headers, box, INTERPRETER_PORT, NULL, err);
        if (r < 0)
                return r;
        r = target_write(c->target, c->name, &target);
        if (r < 0 || !buf_cstr(&target))
                return r == -E2BIG ? error_set(err, SG_INVALID, "the id is too long") : error_no_memory(err);
        r = exchange_run(box->client,
                         &(struct exchange){.url = headers.url,
                                            .method = c->method,
                                            .target = buf_cstr(&target),
                                            .headers = headers.list,
                                            .content_type = text ? "application/json" : NULL,
                                            .body = str_of(text),
                                            .repeats = c->repeats,
                                            .is_to_sandbox = true},
                         &l, &answer, err);
        if (r < 0)
                return box_explain(box, &l, r, err);
        if (answer.status < 200 || answer.status > 299)
                return refused(box, answer.status, (struct str){(const char *)buf_at(&answer.body), answer.body.len},
                               &l, err);
        if (!ret)
                return 0;
        *ret = json_loadb(answer.body.len ? (const char *)buf_at(&answer.body) : "", answer.body.len, JSON_DECODE_ANY,
                          NULL);
        return *ret ? 0 : error_set(err, SG_INTERNAL, "the code interpreter's answer is not JSON");
}
