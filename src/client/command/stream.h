/* stream.h - a server's stream of messages from the daemon of a sandbox: a command's output, the events of a watch.
 *
 *      OPENING ──first message──> OPEN ──end frame without an error──> ENDED
 *         │                        ├──── end frame with an error ────> FAILED
 *         └──refused──> FAILED     └──── the connection breaks ──────> CUT
 *
 * It has a lane of its own.  Messages come while somebody runs the lane's loop: stream_wait(), stream_poll(). */
#pragma once
#include <jansson.h>

#include "client/sandbox/box.h"

enum stream_state { STREAM_CLOSED, STREAM_OPENING, STREAM_OPEN, STREAM_ENDED, STREAM_FAILED, STREAM_CUT };

struct stream_open {
        const char *target;      /* "/process.Process/Start" */
        const char *user;        /* NULL: none is named */
        const char *replay_from; /* NULL: output as it comes */
        uint32_t kill_after_ms;  /* Connect-Timeout-Ms; 0: none */
        const json_t *message;
};

struct rpc_stream {
        struct sg_sandbox *box; /* borrowed */
        struct lane *lane;      /* owned; NULL: closed, and was never open */
        struct http_call *call; /* owned; NULL: none */
        enum stream_state state;
        struct sg_error why; /* of FAILED and CUT */
        bool has_sent;       /* something may have come of the request */
        bool has_message;    /* since it was begun */
        unsigned status;
        struct buf frames;  /* bytes of messages that are not complete */
        struct buf refusal; /* body of an answer other than 200 */
        struct io wake;     /* an eventfd: there is more to do without an event of the network */
        /* Set by on_message: whoever waits is to look. */
        bool is_woken;
        /* Negative: the stream has failed, *err says why. */
        int (*on_message)(struct rpc_stream *s, const json_t *message, struct sg_error *err);
};

void stream_prepare(struct rpc_stream *s, struct sg_sandbox *box,
                    int (*on_message)(struct rpc_stream *, const json_t *, struct sg_error *));
/* Begin; nothing has been sent yet when it returns.  Also for a stream that was cut: the lane stays. */
int stream_begin(struct rpc_stream *s, const struct stream_open *open, struct limit *l, struct sg_error *err);
/* Begin, and wait for the first message; again while no connection comes about. */
int stream_open_wait(struct rpc_stream *s, const struct stream_open *open, struct limit *l, struct sg_error *err);
/* Until on_message has set is_woken, or the stream is over. */
int stream_wait(struct rpc_stream *s, struct limit *l, struct sg_error *err);
/* What can be done without waiting. */
int stream_poll(struct rpc_stream *s, struct sg_error *err);
static inline bool stream_is_over(const struct rpc_stream *s)
{
        return s->state == STREAM_ENDED || s->state == STREAM_FAILED || s->state == STREAM_CUT;
}
void stream_wake(struct rpc_stream *s); /* stream_wait() returns */
void stream_close(struct rpc_stream *s);

/* The kind that a code of the Connect protocol stands for. */
enum sg_error_kind kind_of_connect_code(const char *code);
