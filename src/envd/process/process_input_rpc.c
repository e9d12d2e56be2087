#include <errno.h>
#include <signal.h>

#include "envd/rpc/handler_context.h"
#include "envd/rpc/field.h"
#include "envd/process/process_input.h"
#include "envd/process/process.h"
#include "envd/process/process_rpc.h"
#include "envd/process/process_start.h"
#include "envd/rpc/rpc.h"

/* One input of a call, or the one at hand of a client stream. */
struct writing {
        struct input input;
        struct rpc *rpc;
        pid_t pid;   /* what a client stream has selected; 0: nothing yet */
        bool is_pty; /* for the words of an error */
};

static void on_gone(struct rpc *rpc)
{
        struct writing *w = rpc->state;

        input_cancel(&w->input);
        buf_done(&w->input.bytes);
        free(w);
}

static struct writing *writing_of(struct rpc *rpc)
{
        struct writing *w = rpc->state;

        if (w)
                return w;
        w = calloc(1, sizeof(*w));
        if (!w)
                return NULL;
        *w = (struct writing){.rpc = rpc};
        buf_init(&w->input.bytes, RPC_MESSAGE_MAX);
        rpc->state = w;
        rpc->on_gone = on_gone;
        return w;
}

static void on_written(struct input *in, int r)
{
        struct writing *w = in->arg;
        struct rpc *rpc = w->rpc;

        if (r == 0 && rpc->method->kind == RPC_CLIENT_STREAM)
                rpc_next(rpc);
        else if (r == 0)
                rpc_reply(rpc, json_object());
        else if (r == -EBADF)
                rpc_failf(rpc, CONNECT_INTERNAL, "error writing to stdin: stdin not enabled or closed");
        else if (w->is_pty)
                rpc_failf(rpc, CONNECT_INTERNAL, "error writing to tty: error writing to tty of process '%d': %s",
                          w->pid, errno_text(-r));
        else
                rpc_failf(rpc, CONNECT_INTERNAL,
                          "error writing to stdin: error writing to stdin of process '%d': write |1: %s", w->pid,
                          errno_text(-r));
}

/* May bytes be written to p this way? */
static int check_target(const struct process *p, bool to_pty, struct fault *f)
{
        if (to_pty && !p->is_pty)
                return fault_set(f, CONNECT_INTERNAL,
                                 "error writing to tty: tty not assigned to process — input should be written to the "
                                 "stdin, not the tty");
        if (!to_pty && p->is_pty)
                return fault_set(
                        f, CONNECT_INTERNAL,
                        "error writing to stdin: tty assigned to process — input should be written to the pty, "
                        "not the stdin");
        if (!to_pty && p->in.fd < 0)
                return fault_set(f, CONNECT_INTERNAL, "error writing to stdin: stdin not enabled or closed");
        return 0;
}

/* Write the `input` of the message to p.  -1: failed, *f says why; otherwise on_written() follows or has come. */
static int write_input(struct rpc *rpc, struct process *p, const json_t *in, struct fault *f)
{
        struct writing *w = writing_of(rpc);
        bool is_stdin = false, is_pty = false;
        json_t *obj;

        if (!w)
                return fault_set(f, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
        buf_reset(&w->input.bytes);
        if (field_object(in, "input", &obj, f) < 0 || field_bytes(obj, "stdin", &w->input.bytes, &is_stdin, f) < 0)
                return -1;
        if (is_stdin && field_get(obj, "pty"))
                return fault_set(f, CONNECT_INVALID_ARGUMENT,
                                 "unmarshal message: field input: only one of stdin and pty may be given");
        if (!is_stdin && field_bytes(obj, "pty", &w->input.bytes, &is_pty, f) < 0)
                return -1;
        if (!is_stdin && !is_pty)
                return fault_set(f, CONNECT_UNIMPLEMENTED, "invalid input type <nil>");
        if (check_target(p, is_pty, f) < 0)
                return -1;
        w->pid = p->pid;
        w->is_pty = is_pty;
        w->input.arg = w;
        w->input.on_done = on_written;
        input_start(p, &w->input);
        return 0;
}

void process_rpc_send_input(struct rpc *rpc)
{
        AUTO_FAULT struct fault f = {0};
        struct process *p = selector_find(rpc->service, rpc->in, &f);

        if (!p || write_input(rpc, p, rpc->in, &f) < 0)
                rpc_fail(rpc, &f);
}

/* Messages of StreamInput: start selects, data is written, keepalives do nothing. */

static int stream_select(struct rpc *rpc, const json_t *start, struct fault *f)
{
        struct process *p = selector_find(rpc->service, start, f);
        struct writing *w = p ? writing_of(rpc) : NULL;

        if (!p)
                return -1;
        if (!w)
                return fault_set(f, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
        w->pid = p->pid;
        rpc_next(rpc);
        return 0;
}

static int stream_data(struct rpc *rpc, const json_t *data, struct fault *f)
{
        const struct writing *w = rpc->state;
        struct process *p;

        if (!w || !w->pid)
                return fault_set(f, CONNECT_FAILED_PRECONDITION, "data before the start message");
        p = process_find_pid(rpc->service, w->pid);
        if (!p)
                return selector_not_found(&(struct selector){.pid = (uint32_t)w->pid}, f);
        return write_input(rpc, p, data, f);
}

void process_rpc_stream_input(struct rpc *rpc)
{
        AUTO_FAULT struct fault f = {0};
        json_t *start, *data;
        int r = 0;

        if (field_object(rpc->in, "start", &start, &f) < 0 || field_object(rpc->in, "data", &data, &f) < 0)
                r = -1;
        else if (start)
                r = stream_select(rpc, start, &f);
        else if (data)
                r = stream_data(rpc, data, &f);
        else if (field_get(rpc->in, "keepalive"))
                rpc_next(rpc);
        else
                r = fault_set(&f, CONNECT_UNIMPLEMENTED, "invalid event type <nil>");
        if (r < 0)
                rpc_fail(rpc, &f);
}

void process_rpc_close_stdin(struct rpc *rpc)
{
        AUTO_FAULT struct fault f = {0};
        struct process *p = selector_find(rpc->service, rpc->in, &f);
        struct writing *w;

        if (!p) {
                rpc_fail(rpc, &f);
                return;
        }
        if (p->is_pty) {
                rpc_failf(rpc, CONNECT_UNKNOWN,
                          "error closing stdin: cannot close stdin for PTY process — send Ctrl+D (0x04) instead");
                return;
        }
        w = writing_of(rpc);
        if (!w) {
                rpc_failf(rpc, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
                return;
        }
        w->pid = p->pid;
        w->input.is_close = true; /* after what is being written */
        w->input.arg = w;
        w->input.on_done = on_written;
        input_start(p, &w->input);
}

static int signal_decode(const json_t *in, int *ret, struct fault *f)
{
        const json_t *v = field_get(in, "signal");
        const char *name = json_string_value(v);
        uint32_t number;

        if (v && !name) {
                if (field_u32(in, "signal", &number, f) < 0)
                        return -1;
                *ret = (int)number;
                if (*ret != SIGKILL && *ret != SIGTERM && *ret != 0)
                        return fault_set(f, CONNECT_UNIMPLEMENTED, "invalid signal: %d", *ret);
        } else if (name && strcmp(name, "SIGNAL_SIGKILL") == 0) {
                *ret = SIGKILL;
        } else if (name && strcmp(name, "SIGNAL_SIGTERM") == 0) {
                *ret = SIGTERM;
        } else if (name && strcmp(name, "SIGNAL_UNSPECIFIED") != 0) {
                return fault_set(f, CONNECT_INVALID_ARGUMENT, "unmarshal message: field signal: unknown value \"%s\"",
                                 name);
        } else {
                *ret = 0;
        }
        if (*ret == 0)
                return fault_set(f, CONNECT_UNIMPLEMENTED, "invalid signal: SIGNAL_UNSPECIFIED");
        return 0;
}

void process_rpc_send_signal(struct rpc *rpc)
{
        AUTO_FAULT struct fault f = {0};
        struct process *p = selector_find(rpc->service, rpc->in, &f);
        int sig = 0, r;

        if (!p || signal_decode(rpc->in, &sig, &f) < 0) {
                rpc_fail(rpc, &f);
                return;
        }
        r = process_signal(p, sig);
        if (r < 0)
                rpc_failf(rpc, CONNECT_INTERNAL, "error sending signal: %s", errno_text(-r));
        else
                rpc_reply(rpc, json_object());
}

void process_rpc_update(struct rpc *rpc)
{
        AUTO_FAULT struct fault f = {0};
        struct process *p = selector_find(rpc->service, rpc->in, &f);
        uint32_t cols, rows;
        bool has_pty;
        int r;

        if (!p || pty_size_decode(rpc->in, &has_pty, &cols, &rows, &f) < 0) {
                rpc_fail(rpc, &f);
                return;
        }
        r = has_pty ? process_resize(p, cols, rows) : 0;
        if (r == -ENOTTY)
                rpc_failf(rpc, CONNECT_INTERNAL, "error resizing tty: tty not assigned to process");
        else if (r < 0)
                rpc_failf(rpc, CONNECT_INTERNAL, "error resizing tty: %s", errno_text(-r));
        else
                rpc_reply(rpc, json_object());
}
