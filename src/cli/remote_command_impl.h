/* remote_command_impl.h - what the files of a remote command share. */
#pragma once
#include "base/buf.h"
#include "cli/remote_command.h"
#include "io/loop.h"

#define EVENT_MAX (8u << 20) /* one message of the stream */

struct remote_command {
        const struct remote_command_options *opt;
        struct loop *loop;          /* owned */
        struct http_client *client; /* owned: traffic into the sandbox */
        struct http_call *stream;   /* owned: process.Process/Start or Connect; NULL: none, it was cut */
        struct http_call *input;    /* owned: SendInput, CloseStdin or SendSignal under way; NULL: none */
        struct buf frames;          /* bytes of envelopes not yet complete */
        struct io signals;          /* a signalfd */
        struct io standard_input;
        struct task standard_input_task; /* instead, where epoll does not take it: a file is always readable */
        bool reads_input;                /* and not at its end */
        uint32_t pid;                    /* 0: not started yet */
        uint64_t received;               /* bytes of output: where a new stream has to begin */
        uint64_t next;                   /* attached: number of the first byte that was not written yet */
        bool wants_resize;               /* our terminal has another size, and the command is not told yet */
        unsigned reconnects;
        unsigned signal_count;
        int code; /* -1: not known yet */
        int r;    /* negative: failed, *err says why */
        struct err *err;
};

/* remote_command_output.c: a piece of the stream.  Sets code when the command ended, r when something failed. */
void remote_command_output(struct remote_command *c, struct str piece);
