/* command.h - what the files of a command share: its stream of output, its input, what is kept for the result. */
#pragma once
#include "client/command/stream.h"

#define COMMAND_TIMEOUT_MS 60000u
#define COMMAND_GRACE_MS 10000u /* between the time limit of a command and that of the call that waits for it */
#define INPUT_PIECE (32u << 10)

struct kept_output {
        struct buf bytes;
        bool is_cut;
};

/* What the command reads.
 *
 *      NONE      CLOSED <──its end was sent, or refused── BYTES, FD      OPEN: sg_command_send() */
enum input_kind { INPUT_NONE, INPUT_OPEN, INPUT_BYTES, INPUT_FD, INPUT_CLOSED };

struct sg_command {
        struct rpc_stream stream;
        uint32_t pid; /* 0: not started yet */
        bool has_terminal, is_attached, ends_caught_up;

        sg_output_fn *on_stdout, *on_stderr;
        void (*on_lost)(uint64_t bytes, void *arg);
        void *arg;
        struct kept_output out, err;
        bool is_refused; /* a callback wants no more; said to the next one that waits */

        uint64_t received; /* bytes of output: where a new stream has to begin */
        uint64_t next;     /* attached: number of the first byte that was not written yet */
        unsigned reconnects;
        uint64_t reconnected_ms; /* when it was connected again the last time */
        unsigned hasty;          /* connections in a row that were cut soon */

        bool has_ended;
        int exit_code, signal;
        char *message; /* owned: of the end; NULL: none */

        enum input_kind input_kind;
        struct buf input;          /* BYTES: what is left */
        struct io input_io;        /* FD */
        struct task input_task;    /* FD: instead, where epoll does not take it: a file is always readable */
        bool is_at_end;            /* FD, BYTES: nothing more to send but the end */
        struct http_call *sending; /* owned: a request with input under way; NULL: none */
        unsigned sent_status;      /* of the last one */
        struct buf sent_refusal;
        struct sg_error sent_why; /* kind SG_OK: the last one was answered */
};

/* exit.c: of an end event: {"exitCode":n} or {"status":"signal: killed"}.  128 + number where a signal ended it. */
int exit_code_of(const json_t *end, int *ret_signal);

/* output.c: the stream's messages. */
int command_on_message(struct rpc_stream *s, const json_t *message, struct sg_error *err);
int command_result(const struct sg_command *c, struct sg_result **ret, struct sg_error *err);

/* input.c */
int command_input_init(struct sg_command *c, const struct sg_command_options *o, struct sg_error *err);
void command_input_watch(struct sg_command *c); /* go on with it, where there is something to do */
void command_input_done(struct sg_command *c);
/* One request with input: the bytes (NULL: the end of input). */
int command_input_send(struct sg_command *c, const void *bytes, size_t n, struct sg_error *err);
