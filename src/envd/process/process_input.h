/* process_input.h - what is written to a process: stdin or PTY, in the order it was asked for, without blocking us.
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
        bool is_close;           /* close instead */
        /* Called once when it is done: 0, or a negative errno (-EPIPE: nobody reads; -EBADF: closed meanwhile). */
        void (*on_done)(struct process_input *in, int r);
        void *arg;
};

void process_inputs_init(struct process *p, int fd);
/* Queue it; on_done comes later or before this returns.  The memory stays the caller's. */
void process_input_start(struct process *p, struct process_input *in);
/* Forget it: on_done is not called any more. */
void process_input_cancel(struct process_input *in);
/* The process has ended: all that wait fail. */
void process_inputs_drop(struct process *p);
