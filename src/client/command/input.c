/* What a command reads: given bytes, or what comes from an fd, piece by piece as the command takes them; each piece is a request
 * of its own, beside the stream of output and on the same loop. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

#include "client/command/command.h"
#include "wire/base64.h"

#define REFUSAL_MAX (16u << 10)

/* ---- one request ---- */

static void sent_head(struct http_call *call, void *arg)
{
        struct sg_command *c = arg;

        c->sent_status = http_call_head(call)->status;
}

static size_t sent_data(struct http_call *call, struct str piece, void *arg)
{
        struct sg_command *c = arg;
        size_t room = buf_room(&c->sent_refusal);

        (void)call;
        (void)buf_add(&c->sent_refusal, piece.p, piece.n < room ? piece.n : room);
        return piece.n;
}

/* Automatic input that is refused (the command closed it, or is gone) is the end of input, not of the command.  What is cut off
 * may have arrived or not: neither repeating nor leaving it out is right. */
static void sent_end(struct http_call *call, const struct err *why, void *arg)
{
        struct sg_command *c = arg;

        c->sent_why = (struct sg_error){0};
        if (why)
                (void)error_from(&c->sent_why, why);
        else if (c->sent_status != 200)
                (void)error_refused(&c->sent_why, c->sent_status, 0,
                                    (struct str){(const char *)buf_at(&c->sent_refusal), c->sent_refusal.len});
        c->sending = http_call_free(call);
        stream_wake(&c->stream);
        if (c->input_kind != INPUT_BYTES && c->input_kind != INPUT_FD)
                return;
        if (c->sent_why.kind != SG_OK && c->sent_status == 0 && !c->has_ended && c->stream.state == STREAM_OPEN) {
                (void)error_pass(&c->stream.why, &c->sent_why);
                (void)error_wrap(&c->stream.why, "the command's input was cut off");
                c->stream.state = STREAM_FAILED;
        } else if (c->sent_why.kind != SG_OK) {
                c->input_kind = INPUT_CLOSED;
        }
        command_input_watch(c);
}

static json_t *input_message(const struct sg_command *c, const void *bytes, size_t n)
{
        AUTO_BUF struct buf text = BUF_INIT(BASE64_LEN(INPUT_PIECE) + 1);

        if (!bytes)
                return json_pack("{s:{s:I}}", "process", "pid", (json_int_t)c->pid);
        if (base64_add(&text, bytes, n, true) < 0)
                return NULL;
        return json_pack("{s:{s:I}, s:{s:s%}}", "process", "pid", (json_int_t)c->pid, "input",
                         c->has_terminal ? "pty" : "stdin", buf_at(&text), text.len);
}

int command_input_send(struct sg_command *c, const void *bytes, size_t n, struct sg_error *err)
{
        json_t *message = input_message(c, bytes, n);
        AUTO_FREE char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;
        AUTO(box_headers_done) struct box_headers headers = {0};
        const struct http_call_options opt = {.method = "POST",
                                              .target = bytes ? "/process.Process/SendInput"
                                                              : "/process.Process/CloseStdin",
                                              .headers = headers.list,
                                              .content_type = "application/json",
                                              .body = str_of(text),
                                              .agent = c->stream.box->client->agent,
                                              .reuses_connection = true,
                                              .on_head = sent_head,
                                              .on_data = sent_data,
                                              .on_end = sent_end,
                                              .arg = c};
        struct err why = {0};
        int r;

        json_decref(message);
        if (!text)
                return error_no_memory(err);
        r = box_headers_fill(&headers, c->stream.box, ENVD_PORT_NUMBER, NULL, err);
        if (r < 0)
                return r;
        c->sent_status = 0;
        buf_reset(&c->sent_refusal);
        r = http_call_start(c->stream.lane->http, &opt, &c->sending, &why);
        return r < 0 ? error_from(err, &why) : 0;
}

/* ---- by itself ---- */

static void input_failed(struct sg_command *c)
{
        if (stream_is_over(&c->stream))
                return;
        c->stream.state = STREAM_FAILED;
        stream_wake(&c->stream);
}

static void send_end(struct sg_command *c)
{
        c->is_at_end = true;
        c->input_kind = INPUT_CLOSED;
        if (!c->has_terminal && command_input_send(c, NULL, 0, &c->stream.why) < 0)
                input_failed(c);
}

static void send_bytes(struct sg_command *c)
{
        size_t n = c->input.len < INPUT_PIECE ? c->input.len : INPUT_PIECE;

        if (!n) {
                send_end(c);
                return;
        }
        if (command_input_send(c, buf_at(&c->input), n, &c->stream.why) < 0)
                input_failed(c);
        buf_consume(&c->input, n);
}

static void read_fd(struct sg_command *c)
{
        uint8_t bytes[INPUT_PIECE];
        ssize_t n = read(c->input_io.fd, bytes, sizeof(bytes));

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n <= 0)
                send_end(c);
        else if (command_input_send(c, bytes, (size_t)n, &c->stream.why) < 0)
                input_failed(c);
}

static bool input_is_wanted(const struct sg_command *c)
{
        return c->pid && !c->has_ended && c->stream.state == STREAM_OPEN && !c->sending;
}

static void input_is_ready(struct sg_command *c)
{
        if (c->input_kind == INPUT_FD && input_is_wanted(c))
                read_fd(c);
        command_input_watch(c);
}

static void input_ready_io(struct io *io, uint32_t events)
{
        (void)events;
        input_is_ready(CONTAINER_OF(io, struct sg_command, input_io));
}

static void input_ready_task(struct task *t)
{
        input_is_ready(CONTAINER_OF(t, struct sg_command, input_task));
}

/* Wait for input while the command runs and the last piece has arrived.  Otherwise not at all: the end of a pipe would be told
 * again and again. */
void command_input_watch(struct sg_command *c)
{
        int r;

        if (c->input_kind == INPUT_BYTES && input_is_wanted(c))
                send_bytes(c);
        if (c->input_kind != INPUT_FD || !input_is_wanted(c)) {
                loop_del(&c->input_io);
                loop_unpost(&c->input_task);
                return;
        }
        if (c->input_io.loop)
                return;
        r = loop_add(c->stream.lane->loop, &c->input_io, EPOLLIN);
        if (r == -EPERM) { /* a file */
                loop_post(c->stream.lane->loop, &c->input_task);
        } else if (r < 0) {
                (void)error_sys(&c->stream.why, r, "wait for input");
                input_failed(c);
        }
}

int command_input_init(struct sg_command *c, const struct sg_command_options *o, struct sg_error *err)
{
        int r = 0;

        c->input_io = (struct io){.fd = o->input_fd, .on = input_ready_io};
        c->input_task = (struct task){.run = input_ready_task};
        c->sent_refusal = BUF_INIT(REFUSAL_MAX);
        c->input = BUF_INIT(o->input_len);
        if (o->input)
                r = buf_add(&c->input, o->input, o->input_len);
        c->input_kind = o->input                          ? INPUT_BYTES
                        : o->reads_fd                     ? INPUT_FD
                        : o->has_input || o->has_terminal ? INPUT_OPEN
                                                          : INPUT_NONE;
        return r < 0 ? error_no_memory(err) : 0;
}

void command_input_done(struct sg_command *c)
{
        c->sending = http_call_free(c->sending);
        loop_del(&c->input_io);
        loop_unpost(&c->input_task);
        buf_done(&c->input);
        buf_done(&c->sent_refusal);
}
