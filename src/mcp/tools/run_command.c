/* run_command.c - the tool run_command: a command in the shell of the session, to its end. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "mcp/protocol/call.h"
#include "mcp/protocol/mcp.h"
#include "mcp/protocol/session.h"
#include "mcp/protocol/shorten.h"
#include "mcp/tools/sandbox_tools.h"
#include "mcp/tools/shell.h"
#include "mcp/tools/workbench.h"

#define TIMEOUT_S 120
#define OUTPUT_BYTES 30000
#define INTERRUPTS 3 /* a command that goes on after so many is ended with its shell */
#define INTERRUPT_MS 500u
#define PROGRESS_MS 250u
#define PROGRESS_BYTES 2000u

struct run {
        struct list node;        /* of workbench->shell_queue */
        struct workbench *bench; /* of the session */
        char *command, *cwd;     /* owned; cwd NULL: where the shell is */
        struct call *call;       /* NULL: cancelled; the shell is being interrupted */
        struct loop *loop;
        struct shell *shell; /* of the session; NULL: the command waits for its turn */
        unsigned interrupts;
        struct timer timer; /* the time is up, or the interrupt had no effect */
        struct timer tick;  /* the next progress may be sent */
        struct shortened out, err;
        struct buf news; /* output since the last progress */
        bool is_timed_out;
        enum shell_loss shell_loss; /* why the command has a new shell */
        json_int_t timeout_s;
};

static void run_free(struct run *r)
{
        list_remove(&r->node);
        free(r->command);
        free(r->cwd);
        timer_clear(&r->timer);
        timer_clear(&r->tick);
        shortened_done(&r->out);
        shortened_done(&r->err);
        buf_done(&r->news);
        free(r);
}

static void send_progress(struct run *r)
{
        AUTO_BUF struct buf text = BUF_INIT(4 * PROGRESS_BYTES);

        if (!r->call || r->news.len == 0)
                return;
        if (text_clean((struct str){(const char *)buf_at(&r->news), r->news.len}, &text) == 0)
                call_progress(r->call, 1, buf_cstr(&text));
        buf_reset(&r->news);
}

static void on_tick(struct timer *t)
{
        send_progress(CONTAINER_OF(t, struct run, tick));
}

static void on_output(struct shell *sh, enum program_output which, struct str piece, void *arg)
{
        struct run *r = arg;

        (void)sh;
        (void)shortened_add(which == PROGRAM_STDOUT ? &r->out : &r->err, piece);
        if (!r->call || !r->call->progress_token)
                return;
        if (piece.n > PROGRESS_BYTES)
                piece = (struct str){piece.p + piece.n - PROGRESS_BYTES, PROGRESS_BYTES};
        if (piece.n > buf_room(&r->news))
                buf_consume(&r->news, piece.n - buf_room(&r->news));
        (void)buf_add(&r->news, piece.p, piece.n);
        if (!timer_is_armed(&r->tick))
                timer_set(r->call->mcp->loop, &r->tick, PROGRESS_MS);
}

static json_t *structured(const struct run *r, const struct shell_end *end, struct buf *out, struct buf *err,
                          uint64_t ms)
{
        return json_pack("{s:i,s:I,s:s%,s:s%,s:b,s:b,s:b}", "exit_code", end->exit_code, "duration_ms", (json_int_t)ms,
                         "stdout", out->len ? (const char *)buf_at(out) : "", out->len, "stderr",
                         err->len ? (const char *)buf_at(err) : "", err->len, "timed_out", r->is_timed_out, "truncated",
                         shortened_is_cut(&r->out) || shortened_is_cut(&r->err), "shell_ended", end->has_ended);
}

static int add_part(struct buf *text, const char *title, const struct buf *part)
{
        int r = 0;

        if (part->len == 0)
                return 0;
        if (title)
                r = buf_addc(text, title);
        if (r == 0)
                r = buf_add(text, buf_at(part), part->len);
        return r == 0 && buf_at(part)[part->len - 1] != '\n' ? buf_addc(text, "\n") : r;
}

static void answer(struct run *r, const struct shell_end *end)
{
        AUTO_BUF struct buf out = BUF_INIT(16u << 20), err = BUF_INIT(16u << 20), text = BUF_INIT(32u << 20);
        uint64_t ms = (clock_mono_us() - r->call->begun_us) / 1000;
        int bad = shortened_text(&r->out, &out);

        if (bad == 0)
                bad = shortened_text(&r->err, &err);
        if (bad == 0)
                bad = add_part(&text, NULL, &out);
        if (bad == 0)
                bad = add_part(&text, "[stderr]\n", &err);
        if (bad == 0 && r->is_timed_out)
                bad = buf_addf(&text, "[stopped after %lld s, the time limit]\n", (long long)r->timeout_s);
        if (bad == 0 && r->shell_loss == SHELL_RESTED)
                bad = buf_addf(&text, "[a new shell: the last one ended after %u s without use]\n",
                               r->call->mcp->opt.rest_after_ms / 1000);
        if (bad == 0 && r->shell_loss == SHELL_CANCELLED)
                bad = buf_addc(&text, "[a new shell: the last one ended with a command that was cancelled]\n");
        if (bad == 0 && end->has_ended)
                bad = buf_addc(&text, "[the shell has ended: the next command begins in a new shell]\n");
        if (bad == 0)
                bad = buf_addf(&text, "[exit code %d, %" PRIu64 ".%03" PRIu64 " s]", end->exit_code, ms / 1000,
                               ms % 1000);
        if (bad < 0)
                tool_failed(r->call, "the output is too large to be told: %s", strerror(-bad));
        else
                tool_text(r->call, (struct str){(const char *)buf_at(&text), text.len},
                          structured(r, end, &out, &err, ms));
}

static void run_next(struct workbench *w);

static void on_end(struct shell *sh, const struct shell_end *end, void *arg)
{
        struct run *r = arg;
        struct workbench *w = r->bench;

        (void)sh;
        if (r->call) {
                send_progress(r);
                answer(r, end);
        } else if (end->has_ended) {
                w->shell_loss = SHELL_CANCELLED;
        }
        run_free(r);
        run_next(w);
}

static void stop_command(struct run *r)
{
        if (r->interrupts++ < INTERRUPTS)
                shell_interrupt(r->shell);
        else
                shell_kill(r->shell);
        timer_set(r->loop, &r->timer, INTERRUPT_MS);
}

static void on_timer(struct timer *t)
{
        struct run *r = CONTAINER_OF(t, struct run, timer);

        r->is_timed_out = true;
        stop_command(r);
}

static void on_cancel(struct call *c)
{
        struct run *r = c->user;

        r->call = NULL;
        if (r->shell)
                stop_command(r);
        else
                run_free(r);
        call_result(c, json_object());
}

static struct shell *shell_of(struct workbench *w, struct loop *loop, const char *cwd, struct err *err)
{
        if (w->shell && shell_has_ended(w->shell))
                w->shell = shell_free(w->shell);
        if (!w->shell && shell_create(loop, cwd, &w->shell, err) < 0)
                return NULL;
        return w->shell;
}

/* Give the command to the shell; false: it failed, and the call is answered. */
static bool run_begin(struct run *r)
{
        struct shell_listener listener = {.on_output = on_output, .on_end = on_end, .arg = r};
        struct err err = {0};
        struct shell *sh = shell_of(r->bench, r->loop, r->call->mcp->opt.workspace, &err);

        if (!sh || shell_run(sh, str_of(r->command), r->cwd, &listener, &err) < 0) {
                tool_failed(r->call, "%s", err.msg);
                run_free(r);
                return false;
        }
        r->shell = sh;
        r->shell_loss = r->bench->shell_loss;
        r->bench->shell_loss = SHELL_KEPT;
        r->call->begun_us = clock_mono_us();
        timer_set(r->loop, &r->timer, (uint64_t)r->timeout_s * 1000);
        return true;
}

/* The shell is free: the next command has its turn. */
static void run_next(struct workbench *w)
{
        while (!list_is_empty(&w->shell_queue) && !run_begin(LIST_ENTRY(w->shell_queue.next, struct run, node)))
                continue;
}

static struct run *run_create(struct call *c, json_t *args)
{
        const char *cwd = arg_text(args, "cwd", NULL);
        size_t output_max = (size_t)arg_number(args, "max_output_bytes", OUTPUT_BYTES);
        struct run *r = calloc(1, sizeof(*r));

        if (!r)
                return NULL;
        shortened_init(&r->out, output_max);
        shortened_init(&r->err, output_max);
        buf_init(&r->news, PROGRESS_BYTES);
        r->call = c;
        r->loop = c->mcp->loop;
        r->timer.on = on_timer;
        r->tick.on = on_tick;
        r->timeout_s = arg_number(args, "timeout_s", TIMEOUT_S);
        r->command = strdup(arg_text(args, "command", ""));
        r->cwd = cwd ? strdup(cwd) : NULL;
        if (!r->command || (cwd && !r->cwd)) {
                run_free(r);
                return NULL;
        }
        return r;
}

static void run_command(struct call *c, json_t *args)
{
        struct workbench *w = workbench_of(c->session);
        struct run *r = w ? run_create(c, args) : NULL;
        bool is_free = w && list_is_empty(&w->shell_queue);

        if (!r) {
                tool_failed(c, "out of memory");
                return;
        }
        c->user = r;
        c->on_cancel = on_cancel;
        r->bench = w;
        list_push_back(&w->shell_queue, &r->node);
        if (is_free)
                run_next(w);
}

const struct tool tool_run_command = {
        .name = "run_command",
        .title = "Run a command",
        .description = "Run a command in a bash that lives as long as this session: the directory, variables and "
                       "functions stay from one command "
                       "to the next. Waits for the end of the command and returns its output, its exit code and how "
                       "long it took. Commands of one session run one after the other. For servers "
                       "and other programs that do not end, use start_command.",
        .hints = TOOL_DESTROYS | TOOL_REACHES_OUT,
        .schema = "{\"type\":\"object\",\"properties\":{"
                  "\"command\":{\"type\":\"string\",\"minLength\":1,\"description\":\"The command, as bash reads it. "
                  "May have several lines.\"},"
                  "\"cwd\":{\"type\":\"string\",\"minLength\":1,\"description\":\"Change to this directory first; if "
                  "that fails, the command is not run. A relative path begins where the shell is.\"},"
                  "\"timeout_s\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":86400,\"description\":\"Seconds until "
                  "the command is stopped. Default: 120.\"},"
                  "\"max_output_bytes\":{\"type\":\"integer\",\"minimum\":1000,\"maximum\":4000000,\"description\":"
                  "\"Longer output loses its middle. Default: 30000.\"}"
                  "},\"required\":[\"command\"],\"additionalProperties\":false}",
        .output = "{\"type\":\"object\",\"properties\":{\"exit_code\":{\"type\":\"integer\"},\"duration_ms\":{\"type\":"
                  "\"integer\"},"
                  "\"stdout\":{\"type\":\"string\"},\"stderr\":{\"type\":\"string\"},\"timed_out\":{\"type\":"
                  "\"boolean\"},"
                  "\"truncated\":{\"type\":\"boolean\"},\"shell_ended\":{\"type\":\"boolean\"}},"
                  "\"required\":[\"exit_code\",\"duration_ms\",\"stdout\",\"stderr\",\"timed_out\",\"truncated\","
                  "\"shell_ended\"]}",
        .run = run_command,
};
