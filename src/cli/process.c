#include "cli/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "sys/proc.h"
#include "wire/base64.h"
#include "wire/connect.h"

#define INPUT_PIECE (32u << 10)
#define EVENT_MAX (8u << 20) /* one message of the stream */
#define RECONNECTS_MAX 1000u /* of one command: each snapshot of its sandbox cuts the stream */

struct process {
        const struct process_options *opt;
        struct call stream; /* process.Process/Start */
        struct buf frames;  /* bytes of envelopes not yet complete */
        struct call input;  /* SendInput or CloseStdin under way; fd -1: none */
        int signals;        /* signalfd */
        uint32_t pid;       /* 0: not started yet */
        uint64_t received;  /* bytes of output: where a new stream has to begin */
        unsigned reconnects;
        bool reads_stdin; /* and not at its end */
        unsigned signal_count;
        int code; /* -1: not known yet */
        int r;    /* negative: failed, *err says why */
        struct err *err;
};

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

int process_exit_code(const json_t *end)
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
                        return PROCESS_SIGNALLED + signal_names[i].number;
        if (str_starts(status, "signal ") && parse_u32((struct str){status.p + 7, status.n - 7}, 1, 64, &number) == 0)
                return PROCESS_SIGNALLED + (int)number;
        return 1;
}

/* --- requests to envd --- */

struct envd_call {
        const char *target, *type;
        const char *replay_from; /* NULL: output as it comes */
        struct str body;
};

static int envd_start(struct process *p, struct call *call, const struct envd_call *what)
{
        const struct process_options *o = p->opt;
        AUTO_BUF struct buf basic = BUF_INIT(1024);
        struct client_header headers[8];
        const struct client_request rq = {.method = "POST",
                                          .target = what->target,
                                          .headers = headers,
                                          .content_type = what->type,
                                          .body = what->body};
        size_t n = 0;

        headers[n++] = (struct client_header){"E2b-Sandbox-Id", o->sandbox->id};
        headers[n++] = (struct client_header){"E2b-Sandbox-Port", "49983"};
        headers[n++] = (struct client_header){"Connect-Protocol-Version", "1"};
        headers[n++] = (struct client_header){"Keepalive-Ping-Interval", "50"};
        if (what->replay_from)
                headers[n++] = (struct client_header){"Sandglass-Replay-From", what->replay_from};
        if (o->sandbox->token[0])
                headers[n++] = (struct client_header){"X-Access-Token", o->sandbox->token};
        if (o->user) {
                AUTO_FREE char *pair = NULL;

                if (asprintf(&pair, "%s:", o->user) < 0 || buf_addc(&basic, "Basic ") < 0 ||
                    base64_add(&basic, pair, strlen(pair), true) < 0 || !buf_cstr(&basic))
                        return err_set(p->err, ERR_INVALID, "the user's name is too long");
                headers[n++] = (struct client_header){"Authorization", buf_cstr(&basic)};
        }
        headers[n] = (struct client_header){NULL, NULL};
        return call_start(call, &o->api->sandbox, &rq, p->err);
}

/* A stream of envelopes, the first of them the message (stolen; NULL: it cannot be said). */
static int open_stream(struct process *p, const char *target, const char *replay_from, json_t *message)
{
        AUTO_BUF struct buf body = BUF_INIT(CLIENT_BODY_MAX);
        AUTO_FREE char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;
        struct envd_call call = {.target = target, .type = "application/connect+json", .replay_from = replay_from};
        int r;

        json_decref(message);
        if (!text)
                return err_set(p->err, ERR_INVALID, "the command must be UTF-8 text");
        r = connect_envelope_add(&body, 0, text, strlen(text));
        if (r < 0)
                return err_sys(p->err, r, "send the command");
        call.body = (struct str){(const char *)buf_at(&body), body.len};
        return envd_start(p, &p->stream, &call);
}

/* By way of a login shell, as the clients run theirs: so the command has the same environment.  The shell takes the words as
 * they are, and becomes the command. */
static int start_stream(struct process *p)
{
        const struct process_options *o = p->opt;
        json_t *args = json_pack("[s, s, s, s]", "-l", "-c", "exec -- \"$@\"", "sandglass"), *process, *message;
        int r = 0;

        for (size_t i = 0; o->argv[i]; i++)
                r |= json_array_append_new(args, json_string(o->argv[i]));
        process = json_pack("{s:s, s:o}", "cmd", "/bin/bash", "args", args);
        if (process && o->env && json_object_size(o->env))
                r |= json_object_set(process, "envs", o->env);
        if (process && o->cwd)
                r |= json_object_set_new(process, "cwd", json_string(o->cwd));
        message = process ? json_pack("{s:o, s:b}", "process", process, "stdin", p->reads_stdin) : NULL;
        if (r != 0) {
                json_decref(message);
                message = NULL;
        }
        return open_stream(p, "/process.Process/Start", NULL, message);
}

/* The stream was cut.  A sandbox that goes on (a snapshot or a copy was made of it, an edge ended) has the command, and what
 * it said meanwhile. */
static bool reconnect(struct process *p)
{
        struct api_sandbox now;
        struct err ignored = {0};
        char from[24];

        if (!p->pid || p->reconnects++ >= RECONNECTS_MAX ||
            api_get(p->opt->api, p->opt->sandbox->id, &now, &ignored) < 0 || now.is_paused)
                return false;
        call_done(&p->stream);
        buf_reset(&p->frames);
        (void)snprintf(from, sizeof(from), "%llu", (unsigned long long)p->received);
        return open_stream(p, "/process.Process/Connect", from,
                           json_pack("{s:{s:i}}", "process", "pid", (int)p->pid)) == 0;
}

static int start_input(struct process *p, const char *target, json_t *message /* stolen */)
{
        AUTO_FREE char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;

        json_decref(message);
        if (!text)
                return err_set(p->err, ERR_LIMIT, "out of memory");
        return envd_start(p, &p->input,
                          &(struct envd_call){.target = target, .type = "application/json", .body = str_of(text)});
}

/* --- what comes back --- */

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

static int give_output(struct process *p, int fd, const json_t *data)
{
        AUTO_BUF struct buf bytes = BUF_INIT(EVENT_MAX);
        int r;

        if (!json_is_string(data))
                return 0;
        r = base64_decode((struct str){json_string_value(data), json_string_length(data)}, &bytes);
        if (r < 0)
                return err_sys(p->err, r, "decode the command's output");
        p->received += bytes.len;
        r = write_all(fd, buf_at(&bytes), bytes.len);
        if (r == -EPIPE || r == -ECONNRESET) { /* nobody reads us any more: end as if SIGPIPE had come */
                p->code = PROCESS_SIGNALLED + SIGPIPE;
                return 0;
        }
        return r < 0 ? err_sys(p->err, r, "write the command's output") : 0;
}

static int on_event(struct process *p, const json_t *message)
{
        const json_t *event = json_object_get(message, "event"), *data = json_object_get(event, "data");
        const json_t *start = json_object_get(event, "start"), *end = json_object_get(event, "end");
        json_int_t dropped = json_integer_value(json_object_get(data, "dropped"));
        int r = 0;

        if (start)
                p->pid = (uint32_t)json_integer_value(json_object_get(start, "pid"));
        if (dropped > 0) { /* more than was kept while nobody listened */
                p->received += (uint64_t)dropped;
                (void)fprintf(stderr, "sandglass: %lld bytes of output are lost\n", (long long)dropped);
        }
        if (data)
                r = give_output(p, STDOUT_FILENO, json_object_get(data, "stdout"));
        if (data && r == 0)
                r = give_output(p, STDERR_FILENO, json_object_get(data, "stderr"));
        if (end)
                p->code = process_exit_code(end);
        return r;
}

static int on_envelope(struct process *p, uint8_t flags, struct str payload)
{
        json_t *message = json_loadb(payload.p, payload.n, 0, NULL);
        const json_t *error = json_object_get(message, "error");
        const char *words;
        int r = 0;

        if (!message) {
                r = err_set(p->err, ERR_INTERNAL, "the sandbox sent a broken message");
        } else if (!(flags & CONNECT_FLAG_END)) {
                r = on_event(p, message);
        } else if (error && p->reconnects && p->pid) {
                r = err_set(p->err, ERR_UNAVAILABLE,
                            "the command is gone: its sandbox was taken back to a snapshot, or began anew");
        } else if (error) {
                words = json_string_value(json_object_get(error, "message"));
                r = err_set(p->err, ERR_INTERNAL, "%s", words ? words : "the command could not be run");
        } else if (p->code < 0) {
                r = err_set(p->err, ERR_INTERNAL, "the stream ended before the command did");
        }
        json_decref(message);
        return r;
}

static void on_stream_data(struct str piece, void *arg)
{
        struct process *p = arg;
        struct str payload;
        uint8_t flags;
        size_t used;
        int n;

        if (p->r < 0 || p->stream.status != 200)
                return;
        p->r = buf_add(&p->frames, piece.p, piece.n);
        if (p->r < 0)
                (void)err_sys(p->err, p->r, "keep the command's output");
        while (p->r == 0) {
                n = connect_envelope_parse(buf_at(&p->frames), p->frames.len, EVENT_MAX, &flags, &payload, &used);
                if (n < 0)
                        p->r = err_set(p->err, ERR_INTERNAL, "the sandbox sent a broken message");
                if (n <= 0)
                        break;
                p->r = on_envelope(p, flags, payload);
                buf_consume(&p->frames, used);
        }
}

static void on_input_data(struct str piece, void *arg)
{
        (void)piece;
        (void)arg;
}

static void pump_stream(struct process *p)
{
        int r = call_pump(&p->stream, on_stream_data, p, p->err);

        if (p->r < 0 || p->code >= 0)
                return;
        if (p->stream.has_head && p->stream.status != 200)
                p->r = err_set(p->err, ERR_UNAVAILABLE, "the sandbox did not take the command: %u %s", p->stream.status,
                               http1_reason(p->stream.status));
        else if (r < 0 && !reconnect(p))
                p->r = err_wrap(p->err, "the command's output was cut off");
        else if (r == 1)
                p->r = err_set(p->err, ERR_UNAVAILABLE, "the stream ended before the command did");
}

/* An input that is refused (the command closed it, or is gone) is the end of input, not of the command.  One that is cut
 * off may have arrived or not: neither repeating nor leaving it out is right. */
static void pump_input(struct process *p)
{
        int r = call_pump(&p->input, on_input_data, p, p->err);

        if (r == 0)
                return;
        if (r < 0)
                p->r = err_wrap(p->err, "the command's input was cut off");
        else if (p->input.status != 200)
                p->reads_stdin = false;
        call_done(&p->input);
}

static void pump_stdin(struct process *p)
{
        uint8_t bytes[INPUT_PIECE];
        AUTO_BUF struct buf text = BUF_INIT(BASE64_LEN(INPUT_PIECE) + 1);
        ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n <= 0) {
                p->reads_stdin = false;
                p->r = start_input(p, "/process.Process/CloseStdin",
                                   json_pack("{s:{s:i}}", "process", "pid", (int)p->pid));
                return;
        }
        p->r = base64_add(&text, bytes, (size_t)n, true);
        if (p->r == 0)
                p->r = start_input(p, "/process.Process/SendInput",
                                   json_pack("{s:{s:i}, s:{s:s%}}", "process", "pid", (int)p->pid, "input", "stdin",
                                             buf_at(&text), text.len));
}

/* Pass a signal on: the first asks, the second kills, the third stops waiting. */
static void send_signal(struct process *p)
{
        static const char *const names[] = {"SIGNAL_SIGTERM", "SIGNAL_SIGKILL"};
        struct err ignored = {0};
        struct signalfd_siginfo info;

        if (read(p->signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
                return;
        if (p->opt->ends_on_signal || !p->pid || p->signal_count >= ARRAY_LEN(names)) {
                p->code = PROCESS_SIGNALLED + (int)info.ssi_signo;
                return;
        }
        if (p->input.fd >= 0)
                call_done(&p->input);
        if (start_input(p, "/process.Process/SendSignal",
                        json_pack("{s:{s:i}, s:s}", "process", "pid", (int)p->pid, "signal", names[p->signal_count])) <
            0)
                *p->err = ignored;
        p->signal_count++;
}

static void step(struct process *p)
{
        bool may_read = p->reads_stdin && p->pid && p->input.fd < 0;
        struct pollfd f[] = {
                {.fd = p->stream.fd, .events = call_events(&p->stream)},
                {.fd = p->signals, .events = POLLIN},
                {.fd = p->input.fd, .events = p->input.fd >= 0 ? call_events(&p->input) : 0},
                {.fd = may_read ? STDIN_FILENO : -1, .events = POLLIN},
        };

        if (poll(f, ARRAY_LEN(f), -1) < 0)
                return;
        if (f[0].revents)
                pump_stream(p);
        if (p->code < 0 && p->r == 0 && f[2].revents)
                pump_input(p);
        if (p->code < 0 && p->r == 0 && f[3].revents && p->input.fd < 0)
                pump_stdin(p);
        if (f[1].revents)
                send_signal(p);
}

/* A terminal is not passed on: that would need a terminal on the other side, too. */
static bool has_input(void)
{
        struct stat st;

        return !isatty(STDIN_FILENO) && fstat(STDIN_FILENO, &st) == 0;
}

int process_run(const struct process_options *opt, struct err *err)
{
        struct process p = {.opt = opt,
                            .frames = BUF_INIT(EVENT_MAX + (1u << 20)),
                            .stream = {.fd = -1},
                            .input = {.fd = -1},
                            .reads_stdin = has_input(),
                            .code = -1,
                            .err = err};
        sigset_t set = sys_signals_to_end();

        p.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        if (p.signals < 0)
                return err_sys(err, -errno, "prepare for signals");
        p.r = start_stream(&p);
        while (p.r == 0 && p.code < 0)
                step(&p);
        call_done(&p.stream);
        call_done(&p.input);
        buf_done(&p.frames);
        close_fd(&p.signals);
        return p.r < 0 ? p.r : p.code;
}
