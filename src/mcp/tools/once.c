#include "mcp/tools/once.h"

#include <errno.h>
#include <signal.h>

#include "base/err.h"
#include "mcp/protocol/call.h"
#include "mcp/protocol/mcp.h"
#include "mcp/tools/program.h"
#include "mcp/protocol/tool.h"

#define ERR_BYTES_MAX 8192u

struct once {
        struct call *call;
        struct program *program;
        struct buf out, err;
        bool is_cut, is_timed_out;
        struct timer timer;
        bool (*take)(void *arg, struct str piece);
        void *arg;
        void (*release)(void *arg);
        void (*on_done)(struct call *c, const struct once_output *o);
};

static void once_free(struct once *o)
{
        o->program = program_free(o->program);
        timer_clear(&o->timer);
        buf_done(&o->out);
        buf_done(&o->err);
        if (o->release)
                o->release(o->arg);
        free(o);
}

static void on_output(struct program *p, enum program_output which, struct str piece, void *arg)
{
        struct once *o = arg;
        struct buf *b = which == PROGRAM_STDOUT ? &o->out : &o->err;
        bool is_taken = o->take && which == PROGRAM_STDOUT;
        size_t n = piece.n < buf_room(b) ? piece.n : buf_room(b);

        if (is_taken)
                n = !o->is_cut && o->take(o->arg, piece) ? piece.n : 0;
        else
                (void)buf_add(b, piece.p, n);
        if (n < piece.n && which == PROGRAM_STDOUT) {
                o->is_cut = true;
                program_signal(p, SIGKILL);
        }
}

static struct str content(const struct buf *b)
{
        return (struct str){b->len ? (const char *)buf_at(b) : "", b->len};
}

static void on_end(struct program *p, void *arg)
{
        struct once *o = arg;
        struct once_output output = {.exit_code = program_exit_code(p),
                                     .arg = o->arg,
                                     .is_cut = o->is_cut,
                                     .is_timed_out = o->is_timed_out,
                                     .out = content(&o->out),
                                     .err = content(&o->err)};

        o->on_done(o->call, &output);
        once_free(o);
}

static void on_timer(struct timer *t)
{
        struct once *o = CONTAINER_OF(t, struct once, timer);

        o->is_timed_out = true;
        program_signal(o->program, SIGKILL);
}

static void on_cancel(struct call *c)
{
        once_free(c->user);
        call_result(c, json_object());
}

void once_run(struct call *c, const struct once_options *opt)
{
        struct once *o = calloc(1, sizeof(*o));
        struct program_options po = {.loop = c->mcp->loop,
                                     .argv = opt->argv,
                                     .cwd = opt->cwd ? opt->cwd : c->mcp->opt.workspace,
                                     .env = opt->env,
                                     .keeps_stdin = opt->input.n > 0,
                                     .on_output = on_output,
                                     .on_end = on_end,
                                     .arg = o};
        struct err err = {0};

        if (!o) {
                if (opt->release)
                        opt->release(opt->arg);
                tool_failed(c, "out of memory");
                return;
        }
        buf_init(&o->out, opt->output_max);
        buf_init(&o->err, ERR_BYTES_MAX);
        o->call = c;
        o->on_done = opt->on_done;
        o->take = opt->take;
        o->arg = opt->arg;
        o->release = opt->release;
        o->timer.on = on_timer;
        if (program_start(&po, &o->program, &err) < 0) {
                once_free(o);
                tool_failed(c, "%s", err.msg);
                return;
        }
        if (opt->input.n && program_write(o->program, opt->input) == -E2BIG) {
                once_free(o);
                tool_failed(c, "the input is larger than %u MiB", PROGRAM_INPUT_BYTES_MAX >> 20);
                return;
        }
        c->user = o;
        c->on_cancel = on_cancel;
        timer_set(c->mcp->loop, &o->timer, (uint64_t)opt->timeout_s * 1000);
        if (opt->input.n)
                program_close_stdin(o->program);
}
