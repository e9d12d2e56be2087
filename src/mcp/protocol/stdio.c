#include "mcp/protocol/stdio.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "io/loop.h"
#include "mcp/protocol/call.h"
#include "mcp/protocol/jsonrpc.h"
#include "mcp/protocol/mcp.h"
#include "mcp/protocol/message.h"
#include "mcp/protocol/method.h"
#include "mcp/protocol/session.h"
#include "mcp/protocol/stream.h"
#include "mcp/protocol/versions.h"

#define READ_BYTES (64u << 10)
#define PATIENCE_MS 5000u

/* One side of the pipe.  A regular file is always ready, and no loop can watch it: `ready` stands for its events. */
struct side {
        struct io io;
        struct task ready;
        bool is_file;
};

struct stdio {
        struct mcp *mcp;
        struct side in, out;
        struct buf line;       /* of stdin, not complete yet */
        struct buf queue;      /* for stdout */
        bool is_skipping;      /* the line under way was too long: its rest is nothing */
        bool is_over;          /* of stdin; or nobody reads stdout */
        bool is_gone;          /* nobody reads stdout */
        struct timer patience; /* stdin is over, and answers wait for a client that should read them */
        bool is_initialized;
        struct session *with, *without; /* requests of revisions with sessions and without */
        struct stream *answers[2];      /* of these two */
        struct task ended;
        void (*on_end)(void *arg);
        void *arg;
};

/* ---- both sides ---- */

static int side_open(struct stdio *s, struct side *side, int fd, void (*on)(struct io *, uint32_t),
                     void (*ready)(struct task *))
{
        int r;

        side->io = (struct io){.fd = fd, .on = on};
        side->ready.run = ready;
        r = loop_add(s->mcp->loop, &side->io, 0);
        side->is_file = r == -EPERM;
        return side->is_file ? 0 : r;
}

static void side_want(struct stdio *s, struct side *side, uint32_t events)
{
        if (!side->is_file)
                loop_want(&side->io, events);
        else if (events)
                loop_post(s->mcp->loop, &side->ready);
        else
                loop_unpost(&side->ready);
}

static void look_for_more(struct stdio *s)
{
        side_want(s, &s->in, !s->is_over && s->queue.len < STDIO_HIGH_BYTES ? EPOLLIN : 0);
        side_want(s, &s->out, s->queue.len ? EPOLLOUT : 0);
}

/* What was answered leaves first, if the client takes it. */
static void look_for_end(struct stdio *s)
{
        if (!s->is_over)
                return;
        if (s->is_gone || s->queue.len == 0)
                loop_post(s->mcp->loop, &s->ended);
        else if (!timer_is_armed(&s->patience))
                timer_set(s->mcp->loop, &s->patience, PATIENCE_MS);
}

static void end_of_client(struct stdio *s, bool is_gone)
{
        s->is_over = true;
        s->is_gone = s->is_gone || is_gone;
        look_for_end(s);
}

static void out_of_patience(struct timer *t)
{
        end_of_client(CONTAINER_OF(t, struct stdio, patience), true);
}

static void run_ended(struct task *t)
{
        struct stdio *s = CONTAINER_OF(t, struct stdio, ended);

        s->on_end(s->arg);
}

/* ---- stdout ---- */

/* A pipe that is ready takes PIPE_BUF bytes without waiting.  The mode of the descriptor is shared with others, and stays. */
static ssize_t write_some(struct side *side, const void *p, size_t n)
{
        ssize_t r = send(side->io.fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (r < 0 && errno == ENOTSOCK)
                r = write(side->io.fd, p, n < PIPE_BUF ? n : PIPE_BUF);
        return r < 0 ? -errno : r;
}

static void write_queue(struct stdio *s)
{
        ssize_t n = s->queue.len ? write_some(&s->out, buf_at(&s->queue), s->queue.len) : 0;

        if (n > 0) {
                buf_consume(&s->queue, (size_t)n);
        } else if (n < 0 && n != -EAGAIN && n != -EINTR) { /* nobody reads any more */
                buf_reset(&s->queue);
                end_of_client(s, true);
        }
        look_for_more(s);
        look_for_end(s);
}

static void on_out(struct io *io, uint32_t events)
{
        (void)events; /* of an error, too, write(2) tells */
        struct stdio *s = CONTAINER_OF(io, struct stdio, out.io);

        if (s->queue.len) {
                write_queue(s);
        } else { /* an error is there at all times: it must not be waited for again and again */
                loop_del(io);
                end_of_client(s, true);
        }
}

static void run_out(struct task *t)
{
        write_queue(CONTAINER_OF(t, struct stdio, out.ready));
}

static void on_line_out(struct str message, bool may_drop, void *arg)
{
        struct stdio *s = arg;

        if (s->is_gone || (may_drop && s->queue.len > STDIO_HIGH_BYTES))
                return;
        if (buf_room(&s->queue) <= message.n || buf_add(&s->queue, message.p, message.n) < 0 ||
            buf_addc(&s->queue, "\n") < 0) {
                log_error("mcp.client", "why=\"the client does not read its answers\"");
                buf_done(&s->queue);
                end_of_client(s, true);
        }
        look_for_more(s);
}

static void send_now(struct stdio *s, json_t *message) /* takes message */
{
        AUTO_FREE char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;

        json_decref(message);
        if (text)
                on_line_out(str_of(text), false, s);
}

/* ---- messages ---- */

static void initialize(struct stdio *s, const struct jsonrpc_message *msg)
{
        const char *asked = json_string_value(json_object_get(msg->params, "protocolVersion"));

        if (!asked) {
                send_now(s, jsonrpc_error(msg->id, JSONRPC_INVALID_PARAMS, "initialize needs a protocolVersion"));
                return;
        }
        s->with->version = protocol_choose(str_of(asked));
        s->is_initialized = true;
        send_now(s, jsonrpc_result(msg->id, method_initialize(s->with)));
}

/* Before initialize only ping is answered.  True: the message was refused. */
static bool is_too_early(struct stdio *s, json_t *value)
{
        struct jsonrpc_message msg;
        struct err err = {0};

        if (s->is_initialized || jsonrpc_decode(value, &msg, &err) < 0 || msg.kind != JSONRPC_REQUEST ||
            strcmp(msg.method, "ping") == 0)
                return false;
        send_now(s, jsonrpc_error(msg.id, JSONRPC_INVALID_REQUEST, "begin with initialize"));
        return true;
}

/* A client has one set of ids: what it cancels may be in either session. */
static bool is_cancel(const json_t *value)
{
        const char *method = json_string_value(json_object_get(value, "method"));

        return method && strcmp(method, "notifications/cancelled") == 0;
}

static void take_stateless(struct stdio *s, json_t *value, const char *version)
{
        struct jsonrpc_message msg;
        struct err err = {0};

        if (strcmp(version, PROTOCOL_STATELESS) == 0)
                message_take(s->without, s->answers[1], value);
        else if (jsonrpc_decode(value, &msg, &err) == 0 && msg.kind == JSONRPC_REQUEST)
                send_now(s, protocol_refusal(msg.id, version));
}

static void take_message(struct stdio *s, json_t *value)
{
        const char *version = message_envelope(json_object_get(value, "params"), META_VERSION), *refused;
        struct jsonrpc_message msg;

        if (is_cancel(value)) {
                message_take(s->with, s->answers[0], value);
                message_take(s->without, s->answers[1], value);
        } else if (version) {
                take_stateless(s, value, version);
        } else if (!s->is_initialized && message_is_initialize(value, &msg)) {
                initialize(s, &msg);
        } else if ((refused = message_batch_refusal(value, s->with->version))) {
                send_now(s, jsonrpc_error(NULL, JSONRPC_INVALID_REQUEST, refused));
        } else if (!is_too_early(s, value)) {
                message_take(s->with, s->answers[0], value);
        }
}

static void take_line(struct stdio *s, struct str line)
{
        struct err err = {0};
        json_t *value;

        if (line.n && line.p[line.n - 1] == '\r')
                line.n--;
        if (str_trim(line).n == 0)
                return;
        value = jsonrpc_parse(line, &err);
        if (value)
                take_message(s, value);
        else
                send_now(s, jsonrpc_error(NULL, JSONRPC_PARSE_ERROR, err.msg));
        json_decref(value);
}

/* ---- stdin ---- */

static void take_piece(struct stdio *s, struct str piece)
{
        while (piece.n && !s->is_over) {
                const char *end = memchr(piece.p, '\n', piece.n);
                size_t n = end ? (size_t)(end - piece.p) : piece.n;

                if (!s->is_skipping && buf_add(&s->line, piece.p, n) < 0) {
                        s->is_skipping = true;
                        buf_done(&s->line);
                        send_now(s, jsonrpc_error(NULL, JSONRPC_INVALID_REQUEST, "the message is too long"));
                }
                if (end && !s->is_skipping)
                        take_line(s, (struct str){s->line.len ? (const char *)buf_at(&s->line) : "", s->line.len});
                if (end) {
                        s->is_skipping = false;
                        if (s->line.cap > READ_BYTES)
                                buf_done(&s->line);
                        else
                                buf_reset(&s->line);
                }
                n += end != NULL;
                piece = (struct str){piece.p + n, piece.n - n};
        }
}

static void read_some(struct stdio *s)
{
        static char piece[READ_BYTES];
        ssize_t n = read(s->in.io.fd, piece, sizeof(piece));

        if (n > 0) {
                take_piece(s, (struct str){piece, (size_t)n});
        } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
                if (s->line.len && !s->is_skipping) /* the last line may lack its end */
                        take_line(s, (struct str){(const char *)buf_at(&s->line), s->line.len});
                loop_del(&s->in.io);
                end_of_client(s, false);
        }
        look_for_more(s);
}

static void on_in(struct io *io, uint32_t events)
{
        (void)events;
        read_some(CONTAINER_OF(io, struct stdio, in.io));
}

static void run_in(struct task *t)
{
        read_some(CONTAINER_OF(t, struct stdio, in.ready));
}

/* ---- life ---- */

static int open_sessions(struct stdio *s)
{
        s->with = session_create(s->mcp, PROTOCOL_NEWEST);
        s->without = s->with ? session_create(s->mcp, PROTOCOL_STATELESS) : NULL;
        if (!s->without)
                return -ENOMEM;
        s->without->is_stateless = true;
        s->answers[0] = stream_open_lines(s->with, on_line_out, s);
        s->answers[1] = stream_open_lines(s->without, on_line_out, s);
        return s->answers[0] && s->answers[1] ? 0 : -ENOMEM;
}

int stdio_start(struct mcp *m, int in_fd, int out_fd, void (*on_end)(void *arg), void *arg, struct stdio **ret,
                struct err *err)
{
        struct stdio *s = calloc(1, sizeof(*s));
        int r;

        if (!s)
                return err_sys(err, -ENOMEM, "read messages");
        s->mcp = m;
        s->on_end = on_end;
        s->arg = arg;
        s->ended.run = run_ended;
        s->patience.on = out_of_patience;
        s->in.io.fd = s->out.io.fd = -1;
        buf_init(&s->line, MCP_BODY_BYTES_MAX);
        buf_init(&s->queue, STDIO_QUEUED_BYTES_MAX);
        r = open_sessions(s);
        if (r == 0)
                r = side_open(s, &s->in, in_fd, on_in, run_in);
        if (r == 0)
                r = side_open(s, &s->out, out_fd, on_out, run_out);
        if (r < 0) {
                stdio_free(s);
                return err_sys(err, r, "read messages from stdin");
        }
        look_for_more(s);
        *ret = s;
        return 0;
}

struct stdio *stdio_free(struct stdio *s)
{
        if (!s)
                return NULL;
        if (s->with)
                session_end(s->with);
        if (s->without)
                session_end(s->without);
        loop_del(&s->in.io);
        loop_del(&s->out.io);
        loop_unpost(&s->in.ready);
        loop_unpost(&s->out.ready);
        loop_unpost(&s->ended);
        timer_clear(&s->patience);
        buf_done(&s->line);
        buf_done(&s->queue);
        free(s);
        return NULL;
}
