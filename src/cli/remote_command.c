#include "cli/remote_command.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/remote_command_impl.h"
#include "sys/proc.h"
#include "wire/base64.h"
#include "wire/connect.h"

#define INPUT_PIECE (32u << 10)
#define REQUEST_MAX (16u << 20)
#define RECONNECTS_MAX 1000u /* of one command: each snapshot of its sandbox cuts the stream */

static bool is_over(const struct remote_command *c)
{
        return c->r < 0 || c->code >= 0;
}

static void stop_if_over(struct remote_command *c)
{
        if (is_over(c))
                loop_stop(c->loop);
}

/* --- requests to envd --- */

struct envd_request {
        const char *target, *type;
        const char *replay_from; /* NULL: output as it comes */
        struct str body;
        void (*on_head)(struct http_call *call, void *arg);
        size_t (*on_data)(struct http_call *call, struct str piece, void *arg);
        void (*on_end)(struct http_call *call, const struct err *why, void *arg);
};

static int user_header(const char *user, struct buf *out, struct err *err)
{
        AUTO_FREE char *pair = NULL;

        if (asprintf(&pair, "%s:", user) >= 0 && buf_addc(out, "Basic ") == 0 &&
            base64_add(out, pair, strlen(pair), true) == 0 && buf_cstr(out))
                return 0;
        return err_set(err, ERR_INVALID, "the user's name is too long");
}

static int envd_start(struct remote_command *c, const struct envd_request *rq, struct http_call **ret)
{
        const struct remote_command_options *o = c->opt;
        AUTO_BUF struct buf basic = BUF_INIT(1024);
        struct http_header headers[8];
        const struct http_call_options call = {.method = "POST",
                                               .target = rq->target,
                                               .headers = headers,
                                               .content_type = rq->type,
                                               .body = rq->body,
                                               .on_head = rq->on_head,
                                               .on_data = rq->on_data,
                                               .on_end = rq->on_end,
                                               .arg = c};
        size_t n = 0;
        int r;

        headers[n++] = (struct http_header){"E2b-Sandbox-Id", o->sandbox->id};
        headers[n++] = (struct http_header){"E2b-Sandbox-Port", "49983"};
        headers[n++] = (struct http_header){"Connect-Protocol-Version", "1"};
        headers[n++] = (struct http_header){"Keepalive-Ping-Interval", "50"};
        if (rq->replay_from)
                headers[n++] = (struct http_header){"Sandglass-Replay-From", rq->replay_from};
        if (o->sandbox->token[0])
                headers[n++] = (struct http_header){"X-Access-Token", o->sandbox->token};
        if (o->user) {
                r = user_header(o->user, &basic, c->err);
                if (r < 0)
                        return r;
                headers[n++] = (struct http_header){"Authorization", buf_cstr(&basic)};
        }
        headers[n] = (struct http_header){NULL, NULL};
        return http_call_start(c->client, &call, ret, c->err);
}

/* --- the stream of output --- */

static void watch_input(struct remote_command *c);

static void stream_begins(struct http_call *call, void *arg)
{
        struct remote_command *c = arg;
        unsigned status = http_call_head(call)->status;

        if (status != 200)
                c->r = err_set(c->err, ERR_UNAVAILABLE, "the sandbox did not accept the command: %u %s", status,
                               http1_reason(status));
        stop_if_over(c);
}

static size_t stream_goes_on(struct http_call *call, struct str piece, void *arg)
{
        struct remote_command *c = arg;

        (void)call;
        if (!is_over(c))
                remote_command_output(c, piece);
        if (!is_over(c))
                watch_input(c);
        stop_if_over(c);
        return piece.n;
}

static void stream_ended(struct http_call *call, const struct err *why, void *arg)
{
        struct remote_command *c = arg;

        c->stream = http_call_free(call);
        loop_stop(c->loop);
        if (is_over(c))
                return;
        if (why)
                *c->err = *why; /* it was cut: remote_command_run() may begin another */
        else
                c->r = err_set(c->err, ERR_UNAVAILABLE, "the stream ended before the command did");
}

/* A stream of envelopes, the first of them the message (stolen; NULL: it cannot be written down). */
static int open_stream(struct remote_command *c, const char *target, const char *replay_from, json_t *message)
{
        AUTO_BUF struct buf body = BUF_INIT(REQUEST_MAX);
        AUTO_FREE char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;
        struct envd_request rq = {.target = target,
                                  .type = "application/connect+json",
                                  .replay_from = replay_from,
                                  .on_head = stream_begins,
                                  .on_data = stream_goes_on,
                                  .on_end = stream_ended};
        int r;

        json_decref(message);
        if (!text)
                return err_set(c->err, ERR_INVALID, "the command must be UTF-8 text");
        r = connect_envelope_add(&body, 0, text, strlen(text));
        if (r < 0)
                return err_sys(c->err, r, "send the command");
        rq.body = (struct str){(const char *)buf_at(&body), body.len};
        return envd_start(c, &rq, &c->stream);
}

static json_t *terminal_size(void)
{
        struct winsize size = {0};

        if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) < 0 || !size.ws_col || !size.ws_row)
                size = (struct winsize){.ws_col = 80, .ws_row = 24};
        return json_pack("{s:{s:i, s:i}}", "size", "cols", size.ws_col, "rows", size.ws_row);
}

/* By way of a login shell, as the clients run theirs: so the command has the same environment.  The shell takes the words as
 * they are, and becomes the command. */
static int start_stream(struct remote_command *c)
{
        const struct remote_command_options *o = c->opt;
        json_t *args = json_pack("[s, s, s, s]", "-l", "-c", "exec -- \"$@\"", "sandglass"), *process, *message;
        int r = 0;

        for (size_t i = 0; o->argv[i]; i++)
                r |= json_array_append_new(args, json_string(o->argv[i]));
        process = json_pack("{s:s, s:o}", "cmd", "/bin/bash", "args", args);
        if (process && o->env && json_object_size(o->env))
                r |= json_object_set(process, "envs", o->env);
        if (process && o->cwd)
                r |= json_object_set_new(process, "cwd", json_string(o->cwd));
        message = process ? json_pack("{s:o, s:b}", "process", process, "stdin", c->reads_input) : NULL;
        if (message && o->has_terminal) {
                r |= json_object_del(message, "stdin");
                r |= json_object_set_new(message, "pty", terminal_size());
        }
        if (r != 0) {
                json_decref(message);
                message = NULL;
        }
        return open_stream(c, "/process.Process/Start", NULL, message);
}

/* The kept output of a command, and what follows. */
static int attach_stream(struct remote_command *c)
{
        return open_stream(c, "/process.Process/Connect", "0",
                           json_pack("{s:{s:i}}", "process", "pid", (int)c->opt->attach_pid));
}

/* The stream was cut.  A sandbox that goes on (a snapshot or a copy was made of it, an edge ended) has the command, and what
 * the command wrote meanwhile. */
static bool reconnect(struct remote_command *c)
{
        struct api_sandbox now;
        struct err ignored = {0};
        char from[24];

        if (!c->pid || c->reconnects++ >= RECONNECTS_MAX ||
            api_get(c->opt->api, c->opt->sandbox->id, &now, &ignored) < 0 || now.is_paused)
                return false;
        buf_reset(&c->frames);
        (void)snprintf(from, sizeof(from), "%llu", (unsigned long long)c->received);
        return open_stream(c, "/process.Process/Connect", from,
                           json_pack("{s:{s:i}}", "process", "pid", (int)c->pid)) == 0;
}

/* --- input --- */

/* An input that is refused (the command closed it, or is gone) is the end of input, not of the command.  One that is cut
 * off may have arrived or not: neither repeating nor leaving it out is right. */
static void input_sent(struct http_call *call, const struct err *why, void *arg)
{
        struct remote_command *c = arg;

        if (why) {
                *c->err = *why;
                c->r = err_wrap(c->err, "the command's input was cut off");
        } else if (http_call_head(call)->status != 200) {
                c->reads_input = false;
        }
        c->input = http_call_free(call);
        stop_if_over(c);
        watch_input(c);
}

static int send_input(struct remote_command *c, const char *target, json_t *message /* stolen */)
{
        AUTO_FREE char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;
        const struct envd_request rq = {
                .target = target, .type = "application/json", .body = str_of(text), .on_end = input_sent};

        json_decref(message);
        if (!text)
                return err_set(c->err, ERR_LIMIT, "out of memory");
        return envd_start(c, &rq, &c->input);
}

static void read_input(struct remote_command *c)
{
        uint8_t bytes[INPUT_PIECE];
        AUTO_BUF struct buf text = BUF_INIT(BASE64_LEN(INPUT_PIECE) + 1);
        ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n <= 0 && c->opt->has_terminal) {
                c->reads_input = false;
                return;
        }
        if (n <= 0) {
                c->reads_input = false;
                c->r = send_input(c, "/process.Process/CloseStdin",
                                  json_pack("{s:{s:i}}", "process", "pid", (int)c->pid));
                return;
        }
        c->r = base64_add(&text, bytes, (size_t)n, true);
        if (c->r == 0)
                c->r = send_input(c, "/process.Process/SendInput",
                                  json_pack("{s:{s:i}, s:{s:s%}}", "process", "pid", (int)c->pid, "input",
                                            c->opt->has_terminal ? "pty" : "stdin", buf_at(&text), text.len));
}

/* Returns whether a request is under way for it. */
static bool tell_size(struct remote_command *c)
{
        if (!c->wants_resize || c->input || !c->pid || is_over(c))
                return false;
        c->wants_resize = false;
        c->r = send_input(c, "/process.Process/Update",
                          json_pack("{s:{s:i}, s:o}", "process", "pid", (int)c->pid, "pty", terminal_size()));
        return c->r == 0;
}

static void input_is_ready(struct remote_command *c)
{
        if (!is_over(c) && c->reads_input && !c->input)
                read_input(c);
        stop_if_over(c);
        watch_input(c);
}

static void input_ready_io(struct io *io, uint32_t events)
{
        (void)events;
        input_is_ready(CONTAINER_OF(io, struct remote_command, standard_input));
}

static void input_ready_task(struct task *t)
{
        input_is_ready(CONTAINER_OF(t, struct remote_command, standard_input_task));
}

/* Wait for input while the command runs and the last piece has arrived.  Otherwise not at all: the end of a pipe would be
 * told again and again. */
static void watch_input(struct remote_command *c)
{
        int r;

        (void)tell_size(c);
        if (is_over(c) || !c->reads_input || !c->pid || c->input) {
                loop_del(&c->standard_input);
                loop_unpost(&c->standard_input_task);
                return;
        }
        if (c->standard_input.loop)
                return;
        r = loop_add(c->loop, &c->standard_input, EPOLLIN);
        if (r == -EPERM) /* a file */
                loop_post(c->loop, &c->standard_input_task);
        else if (r < 0)
                c->r = err_sys(c->err, r, "wait for input");
        stop_if_over(c);
}

/* Without has_terminal a terminal is not passed on: that would need a terminal on the other side, too. */
static bool has_input(void)
{
        struct stat st;

        return !isatty(STDIN_FILENO) && fstat(STDIN_FILENO, &st) == 0;
}

static bool reads_input(const struct remote_command_options *opt)
{
        return opt->has_terminal || (!opt->attach_pid && has_input());
}

/* --- signals --- */

/* Pass a signal on: the first asks, the second kills, the third stops waiting. */
static void signal_came(struct io *io, uint32_t events)
{
        static const char *const names[] = {"SIGNAL_SIGTERM", "SIGNAL_SIGKILL"};
        struct remote_command *c = CONTAINER_OF(io, struct remote_command, signals);
        const struct err before = *c->err;
        struct signalfd_siginfo info;

        (void)events;
        if (read(io->fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
                return;
        if (info.ssi_signo == SIGWINCH) {
                c->wants_resize = true;
                watch_input(c);
                return;
        }
        if (c->opt->has_terminal && c->signal_count == 0)
                c->signal_count = 1; /* a shell at a terminal does not listen to SIGTERM */
        if (c->opt->ends_on_signal || !c->pid || c->signal_count >= ARRAY_LEN(names)) {
                c->code = EXIT_SIGNALLED + (int)info.ssi_signo;
                loop_stop(c->loop);
                return;
        }
        c->input = http_call_free(c->input);
        if (send_input(c, "/process.Process/SendSignal",
                       json_pack("{s:{s:i}, s:s}", "process", "pid", (int)c->pid, "signal", names[c->signal_count])) <
            0)
                *c->err = before;
        c->signal_count++;
        watch_input(c);
}

/* --- from start to end --- */

static int remote_command_open(struct remote_command *c)
{
        const struct envfile *env = &c->opt->api->env;
        sigset_t set = sys_signals_to_end();
        int r;

        if (c->opt->has_terminal)
                (void)sigaddset(&set, SIGWINCH);
        r = loop_create(&c->loop);
        if (r < 0)
                return err_sys(c->err, r, "event loop");
        c->signals.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        r = c->signals.fd < 0 ? -errno : loop_add(c->loop, &c->signals, EPOLLIN);
        if (r < 0)
                return err_sys(c->err, r, "prepare for signals");
        r = api_client(c->opt->api, env->sandbox_url ? env->sandbox_url : env->api_url, c->loop, &c->client, c->err);
        if (r < 0)
                return r;
        return c->opt->attach_pid ? attach_stream(c) : start_stream(c);
}

static void remote_command_close(struct remote_command *c)
{
        c->stream = http_call_free(c->stream);
        c->input = http_call_free(c->input);
        c->client = http_client_free(c->client);
        loop_del(&c->signals);
        loop_del(&c->standard_input);
        loop_unpost(&c->standard_input_task);
        c->loop = loop_free(c->loop);
        close_fd(&c->signals.fd);
        buf_done(&c->frames);
}

static int stream_is_lost(struct remote_command *c)
{
        if (!c->pid && c->err->sys == ECONNREFUSED) {
                api_explain_refused(c->client, c->err);
                return -ECONNREFUSED;
        }
        return err_wrap(c->err, "the command's output was cut off");
}

/* Until the command ends, over as many streams as it takes. */
static void remote_command_wait(struct remote_command *c)
{
        while (!is_over(c)) {
                int r = loop_run(c->loop);

                if (r < 0) {
                        c->r = err_sys(c->err, r, "wait for the command");
                } else if (!is_over(c) && !c->stream && !reconnect(c)) {
                        c->r = stream_is_lost(c);
                }
        }
}

int remote_command_run(const struct remote_command_options *opt, struct err *err)
{
        struct remote_command c = {.opt = opt,
                                   .frames = BUF_INIT(EVENT_MAX + (1u << 20)),
                                   .signals = {.fd = -1, .on = signal_came},
                                   .standard_input = {.fd = STDIN_FILENO, .on = input_ready_io},
                                   .standard_input_task = {.run = input_ready_task},
                                   .reads_input = reads_input(opt),
                                   .code = -1,
                                   .err = err};

        c.r = remote_command_open(&c);
        remote_command_wait(&c);
        remote_command_close(&c);
        return c.r < 0 ? c.r : c.code;
}
