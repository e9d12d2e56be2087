/* The stream of a command: envelopes of JSON, whose output goes to ours. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/remote_command_impl.h"
#include "wire/base64.h"
#include "wire/connect.h"

static const struct {
        const char *name;
        int number;
} signal_names[] = {
        {"hangup", 1},
        {"interrupt", 2},
        {"quit", 3},
        {"illegal instruction", 4},
        {"trace/breakpoint trap", 5},
        {"aborted", 6},
        {"bus error", 7},
        {"floating point exception", 8},
        {"killed", 9},
        {"user defined signal 1", 10},
        {"segmentation fault", 11},
        {"user defined signal 2", 12},
        {"broken pipe", 13},
        {"alarm clock", 14},
        {"terminated", 15},
};

int remote_command_exit_code(const json_t *end)
{
        struct str status = str_of(json_string_value(json_object_get(end, "status")));
        json_int_t code = json_integer_value(json_object_get(end, "exitCode"));
        uint32_t number;

        if (code >= 0 && code <= 255)
                return (int)code;
        if (str_ends(status, " (core dumped)"))
                status.n -= strlen(" (core dumped)");
        if (!str_starts(status, "signal: "))
                return 1;
        status = (struct str){status.p + 8, status.n - 8};
        for (size_t i = 0; i < ARRAY_LEN(signal_names); i++)
                if (str_is(status, signal_names[i].name))
                        return EXIT_SIGNALLED + signal_names[i].number;
        if (str_starts(status, "signal ") && parse_u32((struct str){status.p + 7, status.n - 7}, 1, 64, &number) == 0)
                return EXIT_SIGNALLED + (int)number;
        return 1;
}

static int write_all(int fd, const uint8_t *p, size_t n)
{
        while (n > 0) {
                ssize_t done = write(fd, p, n);

                if (done < 0 && errno != EINTR && errno != EAGAIN)
                        return -errno;
                if (done < 0)
                        (void)poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
                else
                        p += done, n -= (size_t)done;
        }
        return 0;
}

static int give_output(struct remote_command *c, int fd, const json_t *data)
{
        AUTO_BUF struct buf bytes = BUF_INIT(EVENT_MAX);
        int r;

        if (!json_is_string(data))
                return 0;
        r = base64_decode((struct str){json_string_value(data), json_string_length(data)}, &bytes);
        if (r < 0)
                return err_sys(c->err, r, "decode the command's output");
        c->received += bytes.len;
        r = write_all(fd, buf_at(&bytes), bytes.len);
        if (r == -EPIPE || r == -ECONNRESET) { /* nobody reads us any more: end as if SIGPIPE had come */
                c->code = EXIT_SIGNALLED + SIGPIPE;
                return 0;
        }
        return r < 0 ? err_sys(c->err, r, "write the command's output") : 0;
}

static int take_event(struct remote_command *c, const json_t *message)
{
        const json_t *event = json_object_get(message, "event"), *data = json_object_get(event, "data");
        const json_t *start = json_object_get(event, "start"), *end = json_object_get(event, "end");
        json_int_t dropped = json_integer_value(json_object_get(data, "dropped"));
        int r = 0;

        if (start)
                c->pid = (uint32_t)json_integer_value(json_object_get(start, "pid"));
        if (start && c->opt->attach_pid && !c->reconnects) { /* output from this byte on is kept */
                c->received = (uint64_t)json_integer_value(json_object_get(start, "offset"));
                c->next = (uint64_t)json_integer_value(json_object_get(start, "next"));
                dropped = 0;
        }
        if (dropped > 0) { /* more than was kept while nobody listened */
                c->received += (uint64_t)dropped;
                (void)fprintf(stderr, "sandglass: %lld bytes of output are lost\n", (long long)dropped);
        }
        if (data)
                r = give_output(c, STDOUT_FILENO, json_object_get(data, "stdout"));
        if (data && r == 0)
                r = give_output(c, STDERR_FILENO, json_object_get(data, "stderr"));
        if (data && r == 0)
                r = give_output(c, STDOUT_FILENO, json_object_get(data, "pty"));
        if (end)
                c->code = remote_command_exit_code(end);
        else if (c->opt->ends_caught_up && c->received >= c->next)
                c->code = 0;
        return r;
}

static int take_envelope(struct remote_command *c, uint8_t flags, struct str payload)
{
        json_t *message = json_loadb(payload.p, payload.n, 0, NULL);
        const json_t *error = json_object_get(message, "error");
        const char *why;
        int r = 0;

        if (!message) {
                r = err_set(c->err, ERR_INTERNAL, "the sandbox sent a broken message");
        } else if (!(flags & CONNECT_FLAG_END)) {
                r = take_event(c, message);
        } else if (error && c->reconnects && c->pid) {
                r = err_set(c->err, ERR_UNAVAILABLE,
                            "the command is gone: its sandbox was taken back to a snapshot, or was started again");
        } else if (error) {
                why = json_string_value(json_object_get(error, "message"));
                r = err_set(c->err, ERR_INTERNAL, "%s", why ? why : "the command could not be run");
        } else if (c->code < 0) {
                r = err_set(c->err, ERR_INTERNAL, "the stream ended before the command did");
        }
        json_decref(message);
        return r;
}

void remote_command_output(struct remote_command *c, struct str piece)
{
        struct str payload;
        uint8_t flags;
        size_t used;
        int n;

        c->r = buf_add(&c->frames, piece.p, piece.n);
        if (c->r < 0)
                (void)err_sys(c->err, c->r, "keep the command's output");
        while (c->r == 0) {
                n = connect_envelope_parse(buf_at(&c->frames), c->frames.len, EVENT_MAX, &flags, &payload, &used);
                if (n < 0)
                        c->r = err_set(c->err, ERR_INTERNAL, "the sandbox sent a broken message");
                if (n <= 0)
                        break;
                c->r = take_envelope(c, flags, payload);
                buf_consume(&c->frames, used);
        }
}
