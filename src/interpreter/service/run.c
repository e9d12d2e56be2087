#include "interpreter/service/run.h"

#include <errno.h>

#include "base/auto.h"
#include "http/server.h"
#include "interpreter/jupyter/json_text.h"
#include "interpreter/jupyter/message.h"
#include "interpreter/jupyter/output.h"

#define LINES_MAX_BYTES ((size_t)2 << 30) /* the largest message, every byte of it escaped */
#define LINES_KEPT_BYTES (256u << 10)     /* memory that is kept for the next line */
#define PIECE_BYTES (1u << 20)            /* of a line, in one write */

static void run_on_keepalive(struct timer *t)
{
        struct run *run = CONTAINER_OF(t, struct run, keepalive);

        if (!run->rq)
                return;
        if (!run_is_full(run)) /* a line of its own, never in the middle of another one */
                (void)http_write(run->rq, OUTPUT_KEEPALIVE, strlen(OUTPUT_KEEPALIVE));
        timer_set(run->loop, &run->keepalive, RUN_KEEPALIVE_MS);
}

struct run *run_create(struct loop *loop, char *code, size_t code_len, json_t *variables, struct str token)
{
        struct run *run = calloc(1, sizeof(*run));

        if (!run) {
                free(code);
                json_decref(variables);
                return NULL;
        }
        *run = (struct run){.loop = loop,
                            .code = code,
                            .code_len = code_len,
                            .variables = variables,
                            .keepalive = {.on = run_on_keepalive},
                            .lines = BUF_INIT(LINES_MAX_BYTES),
                            .late_error = BUF_INIT(LINES_MAX_BYTES),
                            .late_count = -1};
        if (token.n && !(run->token = str_dup(token)))
                return run_free(run);
        return run;
}

static void run_detach(struct run *run)
{
        timer_clear(&run->keepalive);
        if (!run->rq)
                return;
        run->rq->user = NULL;
        run->rq->on_close = NULL;
        run->rq->on_drain = NULL;
        run->rq = NULL;
}

struct run *run_free(struct run *run)
{
        struct http_request *rq;

        if (!run)
                return NULL;
        rq = run->rq;
        run_detach(run);
        if (rq)
                http_abort(rq);
        list_remove(&run->node);
        reservation_drop(&run->memory);
        free(run->code);
        free(run->token);
        json_decref(run->variables);
        buf_done(&run->lines);
        buf_done(&run->late_error);
        free(run);
        return NULL;
}

/* ---- the client ---- */

/* Hand over what the connection takes.  What it does not take stays here: its queue is bounded, a line is not. */
static void run_flush(struct run *run)
{
        while (run->rq && run->lines.len && !http_is_full(run->rq)) {
                size_t n = run->lines.len < PIECE_BYTES ? run->lines.len : PIECE_BYTES;

                if (http_write(run->rq, buf_at(&run->lines), n) < 0)
                        return; /* the client left: on_close tells */
                buf_consume(&run->lines, n);
                timer_set(run->loop, &run->keepalive, RUN_KEEPALIVE_MS);
        }
        if (run->lines.len == 0 && run->lines.cap > LINES_KEPT_BYTES)
                buf_done(&run->lines);
}

static void run_end_if_sent(struct run *run)
{
        struct http_request *rq = run->rq;

        if (rq && run->lines.len)
                return;
        run_detach(run);
        if (rq)
                http_end(rq);
        (void)run_free(run);
}

static void run_on_close(struct http_request *rq, bool is_complete)
{
        struct run *run = rq->user;

        (void)is_complete; /* a complete answer is detached before */
        run->rq = NULL;
        timer_clear(&run->keepalive);
        if (run->is_ending)
                (void)run_free(run);
        else
                run->on_gone(run);
}

static void run_drained(struct http_request *rq)
{
        struct run *run = rq->user;

        run_flush(run);
        if (run->is_ending)
                run_end_if_sent(run);
        else if (!run_is_full(run))
                run->on_drain(run);
}

void run_open(struct run *run, struct http_request *rq, const struct http_header *headers)
{
        run->rq = rq;
        rq->user = run;
        rq->on_close = run_on_close;
        rq->on_drain = run_drained;
        http_start(rq, 200, NULL, headers, -1);
        timer_set(run->loop, &run->keepalive, RUN_KEEPALIVE_MS);
}

bool run_has_client(const struct run *run)
{
        return run->rq != NULL;
}

bool run_is_full(const struct run *run)
{
        return run->rq && (run->lines.len || http_is_full(run->rq));
}

/* ---- lines ---- */

static void run_add_count(struct run *run, int64_t count)
{
        if (run->has_count || count < 0)
                return;
        run->has_count = true;
        if (output_add_count(count, &run->lines) == 0)
                run_flush(run);
}

void run_add_output(struct run *run, const struct jupyter_message *m)
{
        int r;

        if (str_is(m->type, "execute_input")) {
                run_add_count(run, json_text_get_int(m->content, "execution_count"));
                return;
        }
        r = output_add_message(m, &run->lines);
        if (r == -ENOMEM || r == -E2BIG)
                run_add_error(run, "OutputTooLarge", "An output was dropped: there is not enough memory for it");
        if (r <= 0)
                return;
        run->has_error |= str_is(m->type, "error");
        run_flush(run);
}

void run_add_answer(struct run *run, const struct jupyter_message *m)
{
        struct str status = json_text_get_raw(m->content, "status");

        run->late_count = json_text_get_int(m->content, "execution_count");
        buf_reset(&run->late_error);
        if (str_is(status, "error"))
                (void)output_add_reply_error(m->content, &run->late_error);
        else if (str_is(status, "aborted") || str_is(status, "abort"))
                (void)output_add_error("ExecutionAborted", "Execution was aborted", &run->late_error);
}

void run_add_error(struct run *run, const char *name, const char *value)
{
        run->has_error = true;
        if (output_add_error(name, value, &run->lines) == 0)
                run_flush(run);
}

void run_end(struct run *run)
{
        run_add_count(run, run->late_count);
        if (!run->has_error)
                (void)buf_add(&run->lines, buf_at(&run->late_error), run->late_error.len);
        (void)buf_addc(&run->lines, OUTPUT_END);
        run->is_ending = true;
        list_remove(&run->node);
        run_flush(run);
        run_end_if_sent(run);
}
