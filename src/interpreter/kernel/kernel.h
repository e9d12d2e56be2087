/* kernel.h - one running kernel: a process, three sockets, and the messages between them.
 *
 *      STARTING ──answers on shell and iopub──> READY ──kernel_stop()──> STOPPING
 *          │  killed, crashed, too slow           │ crashed: last output     │
 *          └──────────────────────────────────────┴──────────────────────────┴──> ended: on_end, then freed
 *
 * Every kernel ends by the end of its process.  on_end is called exactly once, from the loop, and is the last callback;
 * the kernel is freed after it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

#include "base/list.h"
#include "base/str.h"
#include "interpreter/jupyter/message.h"
#include "io/loop.h"

struct err;
struct kernel; /* opaque */
struct kernelspec;
struct zmq_threads;

#define KERNEL_ID_MAX 33 /* 32 hexadecimal digits */

struct kernels {                     /* all kernels of the service */
        struct loop *loop;           /* borrowed */
        struct zmq_threads *threads; /* owned */
        const char *runtime_dir;     /* borrowed; for connection files */
        const char *home;            /* borrowed */
        unsigned start_ms_max;       /* a kernel that does not answer after this long is killed */
        uint32_t output_max;         /* bytes of one message; a larger output is dropped */
        struct rlimit files;
        struct list all;
};
int kernels_init(struct kernels *ks);  /* after the borrowed fields were set; negative errno */
void kernels_done(struct kernels *ks); /* kills what is left, without callbacks */
/* On SIGCHLD: takes note of every process that ended, also of grandchildren that came to us. */
void kernels_reap(struct kernels *ks);

struct kernel_events {
        void (*on_ready)(void *arg);
        /* A message of the output channel, or an answer on the shell channel. */
        void (*on_output)(const struct jupyter_message *m, void *arg);
        void (*on_answer)(const struct jupyter_message *m, void *arg);
        void (*on_too_large)(void *arg); /* an output was too large and was dropped */
        /* `why` for people; `was_ready`: it had started before it ended; `is_slow`: it was killed since it did not start. */
        void (*on_end)(const char *why, bool was_ready, bool is_slow, void *arg);
};

int kernel_start(struct kernels *ks, const struct kernelspec *spec, const char *cwd, const struct kernel_events *events,
                 void *arg, struct kernel **ret, struct err *err);
/* Ask the kernel to run code; the id of the request is written to ret_id.  -EAGAIN: it takes no requests now;
 * -E2BIG: the code is too large for a message. */
int kernel_execute(struct kernel *k, struct str code, bool is_silent, char ret_id[KERNEL_ID_MAX]);
/* Like Ctrl-C, by a signal to its group or by a message, as its kernelspec says. */
void kernel_interrupt(struct kernel *k);
/* Has every interrupt been answered?  (Signals are, at once.) */
bool kernel_has_interrupted(const struct kernel *k);
/* End the kernel: politely, and with force after a while; or by force at once.  on_end follows. */
void kernel_stop(struct kernel *k, bool by_force);
/* Stop and go on reading outputs. */
void kernel_hold_output(struct kernel *k, bool is_held);
bool kernel_output_is_held(const struct kernel *k);
