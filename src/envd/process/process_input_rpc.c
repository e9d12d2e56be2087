/* process_input_rpc.c - the methods that act on a live process: its input, signals, the size of its terminal. */
#include <errno.h>
#include <signal.h>

#include "envd/process/process.h"
#include "envd/process/process_input.h"
#include "envd/process/process_rpc.h"
#include "envd/process/process_start.h"
#include "envd/rpc/field.h"
#include "envd/rpc/handler_context.h"
#include "envd/rpc/rpc.h"

/* The input of a call, or of the current message of a client stream. */
struct input_call {
        struct process_input input;
        struct rpc *rpc;
        pid_t pid;   /* the process that a client stream has selected; 0: none yet */
        bool is_pty; /* for the text of an error */
};

static void input_call_gone(struct rpc *rpc)
{
        struct input_call *call = rpc->state;

        process_input_cancel(&call->input);
        buf_done(&call->input.bytes);
        free(call);
}

static struct input_call *input_call_of(struct rpc *rpc)
{
        struct input_call *call = rpc->state;

        if (call)
                return call;
        call = calloc(1, sizeof(*call));
        if (!call)
                return NULL;
        *call = (struct input_call){.rpc = rpc};
        buf_init(&call->input.bytes, RPC_MESSAGE_MAX);
        rpc->state = call;
        rpc->on_gone = input_call_gone;
        return call;
}

static void input_call_written(struct process_input *in, int r)
{
        struct input_call *call = in->arg;
        struct rpc *rpc = call->rpc;

        if (r == 0 && rpc->method->kind == RPC_CLIENT_STREAM)
                rpc_next(rpc);
        else if (r == 0)
                rpc_reply(rpc, json_object());
        else if (r == -EBADF)
                rpc_failf(rpc, CONNECT_INTERNAL, "error writing to stdin: stdin not enabled or closed");
        else if (call->is_pty)
                rpc_failf(rpc, CONNECT_INTERNAL, "error writing to tty: error writing to tty of process '%d': %s",
                          call->pid, errno_text(-r));
        else
                rpc_failf(rpc, CONNECT_INTERNAL,
                          "error writing to stdin: error writing to stdin of process '%d': write |1: %s", call->pid,
                          errno_text(-r));
}

/* May bytes be written to this process as PTY input, or as stdin? */
static int check_input_kind(const struct process *p, bool to_pty, struct fault *f)
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

/* Write the `input` of the message to p.  -1: failed, *f says why; otherwise input_call_written() follows or has
 * come. */
static int write_input(struct rpc *rpc, struct process *p, const json_t *in, struct fault *f)
{
        struct input_call *call = input_call_of(rpc);
        bool is_stdin = false, is_pty = false;
        json_t *obj;

        if (!call)
                return fault_set(f, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
        buf_reset(&call->input.bytes);
        if (field_object(in, "input", &obj, f) < 0 || field_bytes(obj, "stdin", &call->input.bytes, &is_stdin, f) < 0)
                return -1;
        if (is_stdin && field_get(obj, "pty"))
                return fault_set(f, CONNECT_INVALID_ARGUMENT,
                                 "unmarshal message: field input: only one of stdin and pty may be given");
        if (!is_stdin && field_bytes(obj, "pty", &call->input.bytes, &is_pty, f) < 0)
                return -1;
        if (!is_stdin && !is_pty)
                return fault_set(f, CONNECT_UNIMPLEMENTED, "invalid input type <nil>");
        if (check_input_kind(p, is_pty, f) < 0)
                return -1;
        call->pid = p->pid;
        call->is_pty = is_pty;
        call->input.arg = call;
        call->input.on_done = input_call_written;
        process_input_start(p, &call->input);
        return 0;
}

void process_rpc_send_input(struct rpc *rpc)
{
        AUTO_FAULT struct fault f = {0};
        struct process *p = process_selector_find(rpc->service, rpc->in, &f);

        if (!p || write_input(rpc, p, rpc->in, &f) < 0)
                rpc_fail(rpc, &f);
}

/* Messages of StreamInput: start selects, data is written, keepalives do nothing. */

static int stream_input_select(struct rpc *rpc, const json_t *start, struct fault *f)
{
        struct process *p = process_selector_find(rpc->service, start, f);
        struct input_call *call = p ? input_call_of(rpc) : NULL;

        if (!p)
                return -1;
        if (!call)
                return fault_set(f, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
        call->pid = p->pid;
        rpc_next(rpc);
        return 0;
}

static int stream_input_data(struct rpc *rpc, const json_t *data, struct fault *f)
{
        const struct input_call *call = rpc->state;
        struct process *p;

        if (!call || !call->pid)
                return fault_set(f, CONNECT_FAILED_PRECONDITION, "data before the start message");
        p = process_find_pid(rpc->service, call->pid);
        if (!p)
                return process_selector_not_found(&(struct process_selector){.pid = (uint32_t)call->pid}, f);
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
                r = stream_input_select(rpc, start, &f);
        else if (data)
                r = stream_input_data(rpc, data, &f);
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
        struct process *p = process_selector_find(rpc->service, rpc->in, &f);
        struct input_call *call;

        if (!p) {
                rpc_fail(rpc, &f);
                return;
        }
        if (p->is_pty) {
                rpc_failf(rpc, CONNECT_UNKNOWN,
                          "error closing stdin: cannot close stdin for PTY process — send Ctrl+D (0x04) instead");
                return;
        }
        call = input_call_of(rpc);
        if (!call) {
                rpc_failf(rpc, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
                return;
        }
        call->pid = p->pid;
        call->input.is_close = true; /* after the inputs that are queued already */
        call->input.arg = call;
        call->input.on_done = input_call_written;
        process_input_start(p, &call->input);
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
        struct process *p = process_selector_find(rpc->service, rpc->in, &f);
        int sig = 0, r;

        if (!p || signal_decode(rpc->in, &sig, &f) < 0) {
                rpc_fail(rpc, &f);
                return;
        }
        if (http1_find(rpc->rq->head, PROCESS_GROUP_HEADER))
                r = process_signal_group(p, sig);
        else
                r = process_signal(p, sig);
        if (r < 0)
                rpc_failf(rpc, CONNECT_INTERNAL, "error sending signal: %s", errno_text(-r));
        else
                rpc_reply(rpc, json_object());
}

void process_rpc_update(struct rpc *rpc)
{
        AUTO_FAULT struct fault f = {0};
        struct process *p = process_selector_find(rpc->service, rpc->in, &f);
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
