#include "cli/remote_command.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "sys/proc.h"
#include "wire/http1.h"

#define SIGNAL_MS 10000u /* to tell the command of a signal */

struct remote_command {
        const struct remote_command_options *opt;
        struct sg_sandbox *box;     /* owned */
        struct sg_command *command; /* owned */
        int signals;                /* owned: a signalfd */
        struct sg_cancel *cancel;   /* owned: of it */
        unsigned signal_count;
        int code;  /* -1: not known yet */
        int out_r; /* negative: our output cannot be written */
};

/* ---- output ---- */

static int write_all(int fd, const char *p, size_t n)
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

static int give_output(struct remote_command *c, int fd, const char *bytes, size_t len)
{
        int r = write_all(fd, bytes, len);

        if (r == -EPIPE || r == -ECONNRESET) /* nobody reads us any more: end as if SIGPIPE had come */
                c->code = EXIT_SIGNALLED + SIGPIPE;
        else
                c->out_r = r;
        return r;
}

static int on_stdout(const char *bytes, size_t len, void *arg)
{
        return give_output(arg, STDOUT_FILENO, bytes, len);
}

static int on_stderr(const char *bytes, size_t len, void *arg)
{
        return give_output(arg, STDERR_FILENO, bytes, len);
}

static void on_lost(uint64_t bytes, void *arg)
{
        (void)arg;
        (void)fprintf(stderr, "sandglass: %llu bytes of output are lost\n", (unsigned long long)bytes);
}

/* ---- signals ---- */

static struct winsize terminal_size(void)
{
        struct winsize size = {0};

        if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) < 0 || !size.ws_col || !size.ws_row)
                size = (struct winsize){.ws_col = 80, .ws_row = 24};
        return size;
}

/* Pass a signal on: the first asks, the second kills, the third stops waiting. */
static void signal_came(struct remote_command *c)
{
        static const int numbers[] = {SIGTERM, SIGKILL};
        const struct sg_call call = {.timeout_ms = SIGNAL_MS};
        struct signalfd_siginfo info;
        struct winsize size;

        if (read(c->signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
                return;
        if (info.ssi_signo == SIGWINCH && c->command) {
                size = terminal_size();
                (void)sg_command_resize(c->command, size.ws_col, size.ws_row, &call, NULL);
                return;
        }
        if (c->opt->has_terminal && c->signal_count == 0)
                c->signal_count = 1; /* a shell at a terminal does not listen to SIGTERM */
        if (c->opt->ends_on_signal || !c->command || c->signal_count >= ARRAY_LEN(numbers)) {
                c->code = EXIT_SIGNALLED + (int)info.ssi_signo;
                return;
        }
        (void)sg_command_signal(c->command, numbers[c->signal_count++], &call, NULL);
}

/* ---- start ---- */

/* Without has_terminal a terminal is not passed on: that would need a terminal on the other side, too. */
static bool has_input(void)
{
        struct stat st;

        return !isatty(STDIN_FILENO) && fstat(STDIN_FILENO, &st) == 0;
}

static int env_pairs(const json_t *env, struct sg_pair **ret)
{
        struct sg_pair *pairs = calloc(json_object_size(env) + 1, sizeof(*pairs));
        const char *name;
        json_t *value;
        size_t n = 0;

        if (!pairs)
                return -ENOMEM;
        json_object_foreach ((json_t *)(uintptr_t)env, name, value)
                pairs[n++] = (struct sg_pair){name, json_string_value(value)};
        *ret = pairs;
        return 0;
}

static int start(struct remote_command *c, const struct sg_call *call, struct sg_error *why)
{
        const struct remote_command_options *o = c->opt;
        struct winsize size = terminal_size();
        AUTO_FREE struct sg_pair *env = NULL;
        struct sg_command_options options = {.cwd = o->cwd,
                                             .user = o->user,
                                             .on_stdout = on_stdout,
                                             .on_stderr = on_stderr,
                                             .on_lost = on_lost,
                                             .arg = c,
                                             .reads_fd = o->has_terminal || (!o->attach_pid && has_input()),
                                             .input_fd = STDIN_FILENO,
                                             .has_terminal = o->has_terminal,
                                             .columns = size.ws_col,
                                             .rows = size.ws_row};

        if (env_pairs(o->env, &env) < 0) {
                *why = (struct sg_error){.kind = SG_LIMIT, .message = "out of memory"};
                return -ENOMEM;
        }
        options.env = env;
        if (o->attach_pid)
                return sg_command_attach(c->box, o->attach_pid, o->ends_caught_up ? SG_KEPT_ONLY : SG_FROM_KEPT,
                                         &options, call, &c->command, why);
        return sg_command_start_argv(c->box, (const char *const *)o->argv, &options, call, &c->command, why);
}

static int explain_start(const struct remote_command *c, const struct sg_error *why, struct err *err)
{
        if (why->http_status)
                return err_set(err, ERR_UNAVAILABLE, "the sandbox did not accept the command: %d %s", why->http_status,
                               http1_reason((unsigned)why->http_status));
        return api_error(c->opt->api, why, err);
}

/* ---- from start to end ---- */

static int remote_command_open(struct remote_command *c, struct err *err)
{
        sigset_t set = sys_signals_to_end();
        struct sg_error why = {0};

        if (c->opt->has_terminal)
                (void)sigaddset(&set, SIGWINCH);
        c->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        if (c->signals < 0)
                return err_sys(err, -errno, "prepare for signals");
        if (sg_cancel_create_fd(c->signals, &c->cancel, &why) < 0)
                return api_error(c->opt->api, &why, err);
        return api_box(c->opt->api, c->opt->sandbox, &c->box, err);
}

/* 0, or c->code is known: go on, or not. */
static int remote_command_turn(struct remote_command *c, struct err *err)
{
        const struct sg_call call = {.timeout_ms = SG_NO_TIMEOUT, .cancel = c->cancel};
        bool is_started = c->command != NULL;
        struct sg_result *result = NULL;
        struct sg_error why = {0};
        int r = is_started ? sg_command_wait(c->command, &call, &result, &why) : start(c, &call, &why);

        if (r == 0 && is_started)
                c->code = result->exit_code;
        sg_free(result);
        if (r == 0 || c->code >= 0)
                return 0;
        if (c->out_r < 0)
                return err_sys(err, c->out_r, "write the command's output");
        if (why.kind != SG_CANCELLED)
                return is_started ? api_error(c->opt->api, &why, err) : explain_start(c, &why, err);
        signal_came(c);
        return 0;
}

int remote_command_run(const struct remote_command_options *opt, struct err *err)
{
        struct remote_command c = {.opt = opt, .signals = -1, .code = -1};
        int r = remote_command_open(&c, err);

        while (r == 0 && c.code < 0)
                r = remote_command_turn(&c, err);
        sg_command_free(c.command);
        sg_sandbox_free(c.box);
        sg_cancel_free(c.cancel);
        close_fd(&c.signals);
        return r < 0 ? r : c.code;
}
