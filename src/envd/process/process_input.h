/* process_input.h - what is written to a process: stdin or PTY, in the order of the calls, without blocking the daemon.
 *
 * Each input is one call (SendInput, a message of StreamInput, CloseStdin) that is answered once it is done. */
#pragma once
#include "base/buf.h"
#include "base/list.h"

struct process;

struct process_input {
        struct list node;        /* process->inputs; unhooked: done */
        struct process *process; /* borrowed; NULL: done */
        struct buf bytes;        /* owned; what is left to write */
        bool is_close;           /* close stdin instead of writing */
        /* Called once when the input is written or closed: 0, or a negative errno (-EPIPE: nobody reads; -EBADF:
         * closed meanwhile). */
        void (*on_done)(struct process_input *in, int r);
        void *arg;
};

void process_inputs_init(struct process *p, int fd);
/* Queue the input; on_done is called later, or before this function returns.  The memory stays the caller's. */
void process_input_start(struct process *p, struct process_input *in);
/* Forget the input: on_done is not called any more. */
void process_input_cancel(struct process_input *in);
/* The process has ended: inputs that wait fail. */
void process_inputs_drop(struct process *p);
