/* POST /sandboxes/{sandbox_id}/code: runs code in the code interpreter of the sandbox. */
#include <stdlib.h>

#include "agent/api/handlers.h"
#include "agent/exchange/ask.h"
#include "agent/exchange/exchange.h"
#include "agent/exchange/sandbox_find.h"
#include "agent/request/code_request.h"
#include "base/err.h"

#define INTERPRETER_PORT 49999

struct code_run {
        json_t *request; /* owned: for the interpreter */
        uint32_t timeout_s;
        struct timer timeout;
        struct exchange *x;
};

static void code_free(struct exchange *x)
{
        struct code_run *run = x->job;

        timer_clear(&run->timeout);
        json_decref(run->request);
        free(run);
}

/* The interpreter interrupts code whose client leaves. */
static void code_is_late(struct timer *t)
{
        struct code_run *run = CONTAINER_OF(t, struct code_run, timeout);

        ask_cancel_all(run->x);
        tell_error(run->x, 504, NULL, "the code did not end within %u s, and was interrupted", run->timeout_s);
}

static void code_answered(struct exchange *x, const struct ask_answer *a)
{
        struct code_run *run = x->job;
        struct err err = {0};
        json_t *obj;

        timer_clear(&run->timeout);
        if (a->status == 502)
                tell_error(x, 501, "no_interpreter",
                           "sandbox '%s' has no code interpreter on port %d: use a template that has one, "
                           "as code-interpreter-v1",
                           x->id, INTERPRETER_PORT);
        else if (a->status != 200)
                tell_error(x, a->status < 400 || a->status == 401 ? 502 : a->status, NULL, "%.*s",
                           (int)(a->text.n < 400 ? a->text.n : 400), a->text.p);
        else if (code_answer_decode(a->text, &obj, &err) < 0)
                tell_error(x, err.kind == ERR_TOO_LARGE ? 413 : 502, NULL, "%s", err.msg);
        else
                tell_json(x, 200, obj);
}

static void code_failed(struct exchange *x, const struct err *why)
{
        struct code_run *run = x->job;

        timer_clear(&run->timeout); /* a slow client still reads this answer when it is due */
        ask_answer_failure(x, why);
}

static void code_start(struct exchange *x)
{
        struct code_run *run = x->job;

        timer_set(x->agent->loop, &run->timeout, run->timeout_s * 1000ull);
        ask(x, &(struct ask_options){.to = ASK_PORT,
                                     .port = INTERPRETER_PORT,
                                     .method = "POST",
                                     .target = "/execute",
                                     .body = run->request,
                                     .wants_bytes = true,
                                     .on_answer = code_answered,
                                     .on_failure = code_failed});
}

void agent_run_code(struct exchange *x)
{
        struct code_run *run = calloc(1, sizeof(*run));
        struct err err = {0};

        if (!run) {
                tell_no_memory(x);
                return;
        }
        run->x = x;
        run->timeout.on = code_is_late;
        x->job = run;
        x->job_free = code_free;
        if (code_request_decode(x->body, &run->request, &run->timeout_s, &err) < 0)
                tell_err(x, &err);
        else
                sandbox_find_running(x, code_start);
}
