/* POST /sandboxes/{sandbox_id}/commands. */
#include <stdlib.h>
#include <string.h>

#include "agent/exchange/ask.h"
#include "agent/output/command_output.h"
#include "agent/api/commands.h"
#include "agent/exchange/exchange.h"
#include "agent/api/handlers.h"
#include "agent/request/command_request.h"
#include "agent/exchange/sandbox_find.h"
#include "base/clock.h"
#include "base/err.h"
#include "model/ids.h"
#include "model/json_field.h"

struct command_run {
        struct command_request rq;
        char id[COMMAND_ID_MAX];
        uint32_t pid; /* 0: it does not run yet */
        uint64_t begun_ms;
        struct envd_process *process; /* owned */
        struct command_output out, err;
};

static void run_free(struct exchange *x)
{
        struct command_run *run = x->job;

        run->process = envd_process_free(run->process); /* the command goes on */
        command_output_done(&run->out);
        command_output_done(&run->err);
        free(run);
}

static void run_on_start(const struct envd_process_start *start, void *arg)
{
        struct exchange *x = arg;
        struct command_run *run = x->job;

        run->pid = start->pid;
        if (!run->rq.is_background)
                return;
        run->process = envd_process_free(run->process);
        tell_json(x, 200, json_pack("{s:s,s:I}", "command_id", run->id, "pid", (json_int_t)run->pid));
}

static void run_on_output(const struct envd_piece *piece, void *arg)
{
        struct exchange *x = arg;
        struct command_run *run = x->job;

        command_output_add(piece->kind == ENVD_STDERR ? &run->err : &run->out, piece->bytes);
}

static void run_tell(struct exchange *x, const struct envd_process_end *end)
{
        struct command_run *run = x->job;
        bool is_timeout = end->err.kind == ERR_TIMEOUT;
        json_t *obj = json_object();

        obj = is_timeout ? json_with(obj, "exit_code", json_integer(COMMAND_TIMED_OUT)) : command_show_end(obj, end);
        if (is_timeout)
                obj = json_with(obj, "timed_out", json_true());
        obj = json_with(obj, "command_id", json_string(run->id));
        obj = json_with(obj, "pid", json_integer(run->pid));
        obj = json_with(obj, "duration_ms", json_integer((json_int_t)(clock_mono_ms() - run->begun_ms)));
        command_tell(x, obj, &run->out, &run->err);
}

static void run_on_end(const struct envd_process_end *end, void *arg)
{
        struct exchange *x = arg;
        struct command_run *run = x->job;
        struct envd_process_end copy = *end;

        run->process = envd_process_free(run->process);
        if (copy.err.kind == ERR_NONE || (copy.err.kind == ERR_TIMEOUT && run->pid && run->rq.timeout_s))
                run_tell(x, &copy);
        else
                command_tell_failure(x, &copy);
}

static void run_start(struct exchange *x)
{
        struct command_run *run = x->job;
        struct envd_process_options opt = {
                .token = NULL, /* in the headers */
                .user = run->rq.user,
                .cmd = "/bin/bash",
                .cwd = run->rq.cwd,
                .args = json_pack("[s,s,s]", "-l", "-c", run->rq.command),
                .env = run->rq.env,
                .tag = run->id,
                .has_stdin = run->rq.has_stdin,
                .timeout_s = run->rq.timeout_s,
                .on_start = run_on_start,
                .on_output = run_on_output,
                .on_end = run_on_end,
                .arg = x,
        };
        struct ask_headers h;
        struct err err = {0};

        ask_headers_of(x, ENVD_PORT, &h);
        opt.headers = h.list;
        run->begun_ms = clock_mono_ms();
        command_id_make(run->id);
        if (!opt.args)
                tell_no_memory(x);
        else if (envd_process_start(x->agent->edge, &opt, &run->process, &err) < 0)
                tell_err(x, &err);
        json_decref(opt.args);
}

void agent_run_command(struct exchange *x)
{
        struct command_run *run = calloc(1, sizeof(*run));
        struct err err = {0};

        if (!run) {
                tell_no_memory(x);
                return;
        }
        command_output_init(&run->out, exchange_take_output, x);
        command_output_init(&run->err, exchange_take_output, x);
        x->job = run;
        x->job_free = run_free;
        if (command_request_decode(x->body, &run->rq, &err) < 0)
                tell_err(x, &err);
        else
                sandbox_find_running(x, run_start);
}
