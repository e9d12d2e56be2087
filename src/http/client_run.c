/* A call from start to end, for callers that have nothing else to do meanwhile. */
#include <assert.h>
#include <errno.h>

#include "http/client_impl.h"

struct client_run {
        const struct http_call_options *opt; /* the caller's */
        struct http_client *client;
        struct io cancel;
        struct buf body;
        int r; /* 0: complete; negative: *err says why */
        bool is_over;
        struct err *err;
};

static void run_end(struct client_run *run, int r)
{
        run->r = r;
        run->is_over = true;
        loop_stop(run->client->loop);
}

/* ---- callbacks: the caller's have the caller's arg ---- */

static ssize_t run_send(struct http_call *call, void *p, size_t n, void *arg)
{
        const struct client_run *run = arg;

        return run->opt->on_send(call, p, n, run->opt->arg);
}

static void run_head(struct http_call *call, void *arg)
{
        const struct client_run *run = arg;

        if (run->opt->on_head)
                run->opt->on_head(call, run->opt->arg);
}

static size_t run_data(struct http_call *call, struct str piece, void *arg)
{
        struct client_run *run = arg;
        int r;

        if (run->opt->on_data)
                return run->opt->on_data(call, piece, run->opt->arg);
        r = buf_add(&run->body, piece.p, piece.n);
        if (r == 0)
                return piece.n;
        run_end(run, r == -E2BIG ? err_set(run->err, ERR_TOO_LARGE, "the answer of %s has more than %zu bytes",
                                           run->client->origin.host, run->body.max)
                                 : err_sys(run->err, r, "keep the answer of %s", run->client->origin.host));
        return 0;
}

static void run_ended(struct http_call *call, const struct err *why, void *arg)
{
        struct client_run *run = arg;

        (void)call;
        if (run->is_over)
                return;
        if (!why) {
                run_end(run, 0);
                return;
        }
        if (run->err)
                *run->err = *why;
        run_end(run, why->sys ? -why->sys : err_set(NULL, why->kind, "%s", ""));
}

static void run_cancelled(struct io *io, uint32_t events)
{
        struct client_run *run = CONTAINER_OF(io, struct client_run, cancel);

        (void)events;
        loop_del(io);
        run_end(run, err_sys(run->err, -EINTR, "wait for %s", run->client->origin.host));
}

/* ---- running ---- */

static int run_call(struct client_run *run, struct http_call **ret_call)
{
        struct http_call_options opt = *run->opt;
        int r;

        opt.on_send = run->opt->on_send ? run_send : NULL;
        opt.on_head = run_head;
        opt.on_data = run_data;
        opt.on_end = run_ended;
        opt.arg = run;
        r = run->cancel.fd < 0 ? 0 : loop_add(run->client->loop, &run->cancel, EPOLLIN);
        if (r < 0)
                return err_sys(run->err, r, "wait for %s", run->client->origin.host);
        r = http_call_start(run->client, &opt, ret_call, run->err);
        if (r < 0)
                return r;
        r = loop_run(run->client->loop);
        return r < 0 ? err_sys(run->err, r, "wait for %s", run->client->origin.host) : run->r;
}

int http_client_run(struct http_client *c, const struct http_call_options *opt, size_t body_max,
                    struct http_answer *ret, struct err *err)
{
        struct client_run run = {.opt = opt,
                                 .client = c,
                                 .cancel = {.fd = c->cancel, .on = run_cancelled},
                                 .body = BUF_INIT(body_max),
                                 .err = err};
        struct http_call *call = NULL;
        int r;

        assert(c->owns_loop && !opt->on_end);
        r = run_call(&run, &call);
        loop_del(&run.cancel);
        if (r == 0) {
                http_answer_done(ret);
                ret->head = call->head;
                ret->head_bytes = call->head_bytes;
                ret->body = run.body;
                call->head_bytes = BUF_INIT(0);
                run.body = BUF_INIT(0);
        }
        call = http_call_free(call);
        buf_done(&run.body);
        return r;
}

void http_answer_done(struct http_answer *a)
{
        buf_done(&a->head_bytes);
        buf_done(&a->body);
        *a = (struct http_answer){0};
}
