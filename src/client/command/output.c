/* The stream of a command: its start, its output, its end. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/block.h"
#include "client/command/command.h"
#include "wire/base64.h"

#define PIECE_MAX (8u << 20)

static void keep(struct kept_output *to, struct str bytes)
{
        size_t room = buf_room(&to->bytes), n = bytes.n < room ? bytes.n : room;

        if (buf_add(&to->bytes, bytes.p, n) < 0 || n < bytes.n)
                to->is_cut = true;
}

static int give_output(struct sg_command *c, sg_output_fn *fn, struct kept_output *kept, const json_t *data,
                       struct sg_error *err)
{
        AUTO_BUF struct buf bytes = BUF_INIT(PIECE_MAX);
        int r;

        if (!json_is_string(data))
                return 0;
        r = base64_decode((struct str){json_string_value(data), json_string_length(data)}, &bytes);
        if (r == -ENOMEM)
                return error_no_memory(err);
        if (r < 0)
                return error_set(err, SG_INTERNAL, "the sandbox sent output that cannot be decoded");
        c->received += bytes.len;
        if (!bytes.len)
                return 0;
        if (!fn) {
                keep(kept, (struct str){(const char *)buf_at(&bytes), bytes.len});
        } else if (fn((const char *)buf_at(&bytes), bytes.len, c->arg) < 0) {
                c->is_refused = true;
                stream_wake(&c->stream);
        }
        return 0;
}

/* A stream that was begun again: are the bytes in between there? */
static int take_start(struct sg_command *c, const json_t *start, struct sg_error *err)
{
        const json_t *offset = json_object_get(start, "offset");
        json_int_t pid = json_integer_value(json_object_get(start, "pid"));
        bool is_first = !c->pid || (c->is_attached && !c->reconnects);

        if (pid < 1 || pid > UINT32_MAX)
                return error_set(err, SG_INTERNAL, "the sandbox sent a start without a process id");
        c->pid = (uint32_t)pid;
        if (!is_first && !offset)
                return error_set(err, SG_UNAVAILABLE,
                                 "the connection was cut, and the server keeps no output: command %u may still run",
                                 c->pid);
        if (is_first) { /* output from this byte on is kept */
                json_int_t dropped = json_integer_value(json_object_get(start, "dropped"));

                if (dropped > 0 && c->on_lost) /* of what was asked for: all that is kept, and more is not */
                        c->on_lost((uint64_t)dropped, c->arg);
                c->received = (uint64_t)json_integer_value(offset);
                c->next = (uint64_t)json_integer_value(json_object_get(start, "next"));
        }
        stream_wake(&c->stream);
        return 0;
}

static int take_end(struct sg_command *c, const json_t *end, struct sg_error *err)
{
        const char *words = json_string_value(json_object_get(end, "error"));

        if (!words)
                words = json_string_value(json_object_get(end, "status"));
        c->exit_code = exit_code_of(end, &c->signal);
        free(c->message);
        c->message = strdup(words ? words : "");
        c->has_ended = true;
        stream_wake(&c->stream);
        return c->message ? 0 : error_no_memory(err);
}

static int take_data(struct sg_command *c, const json_t *data, struct sg_error *err)
{
        int r = give_output(c, c->on_stdout, &c->out, json_object_get(data, "stdout"), err);

        if (r == 0)
                r = give_output(c, c->on_stderr, &c->err, json_object_get(data, "stderr"), err);
        return r < 0 ? r : give_output(c, c->on_stdout, &c->out, json_object_get(data, "pty"), err);
}

int command_on_message(struct rpc_stream *s, const json_t *message, struct sg_error *err)
{
        struct sg_command *c = CONTAINER_OF(s, struct sg_command, stream);
        const json_t *event = json_object_get(message, "event"), *data = json_object_get(event, "data");
        const json_t *start = json_object_get(event, "start"), *end = json_object_get(event, "end");
        json_int_t dropped = json_integer_value(json_object_get(data, "dropped"));
        int r = 0;

        if (start)
                r = take_start(c, start, err);
        else if (!c->pid)
                r = error_set(err, SG_INTERNAL, "the sandbox sent output before it said that the command started");
        if (r == 0 && dropped > 0) { /* more than was kept while nobody listened */
                c->received += (uint64_t)dropped;
                if (c->on_lost)
                        c->on_lost((uint64_t)dropped, c->arg);
        }
        if (r == 0 && data)
                r = take_data(c, data, err);
        if (r == 0 && end)
                r = take_end(c, end, err);
        if (r == 0 && !c->has_ended && c->ends_caught_up && c->received >= c->next) {
                c->has_ended = true;
                stream_wake(s);
        }
        command_input_watch(c);
        return r;
}

/* ---- the result ---- */

int command_result(const struct sg_command *c, struct sg_result **ret, struct sg_error *err)
{
        struct sg_result *res = block_create(sizeof(*res));

        if (!res)
                return error_no_memory(err);
        *res = (struct sg_result){.exit_code = c->exit_code,
                                  .signal = c->signal,
                                  .out_len = c->out.bytes.len,
                                  .err_len = c->err.bytes.len,
                                  .is_cut = c->out.is_cut || c->err.is_cut,
                                  .message = block_text(res, str_of(c->message))};
        res->out = block_text(res, (struct str){(const char *)buf_at(&c->out.bytes), c->out.bytes.len});
        res->err = block_text(res, (struct str){(const char *)buf_at(&c->err.bytes), c->err.bytes.len});
        if (!res->out || !res->err || !res->message) {
                sg_free(res);
                return error_no_memory(err);
        }
        *ret = res;
        return 0;
}
