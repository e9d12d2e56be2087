#include "envd/process/process_start.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>

#include "base/buf.h"
#include "envd/process/authorities.h"
#include "envd/process/process.h"
#include "envd/process/spawn.h"
#include "envd/rpc/field.h"
#include "envd/rpc/paths.h"

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* The request */

int pty_size_decode(const json_t *in, bool *ret_present, uint32_t *ret_cols, uint32_t *ret_rows, struct fault *f)
{
        json_t *pty, *size;

        if (field_object(in, "pty", &pty, f) < 0)
                return -1;
        *ret_present = pty != NULL;
        if (field_object(pty, "size", &size, f) < 0 || field_u32(size, "cols", ret_cols, f) < 0 ||
            field_u32(size, "rows", ret_rows, f) < 0)
                return -1;
        return 0;
}

int start_request_decode(const json_t *in, struct start_request *ret, struct fault *f)
{
        struct start_request rq = {.has_stdin = true};

        if (field_object(in, "process", &rq.config, f) < 0 || field_text(in, "tag", &rq.tag, f) < 0 ||
            field_bool(in, "stdin", &rq.has_stdin, f) < 0 ||
            pty_size_decode(in, &rq.is_pty, &rq.cols, &rq.rows, f) < 0 ||
            field_text(rq.config, "cmd", &rq.cmd, f) < 0 || field_text(rq.config, "cwd", &rq.cwd, f) < 0 ||
            field_text_list(rq.config, "args", &rq.args, f) < 0 || field_text_map(rq.config, "envs", &rq.envs, f) < 0)
                return -1;
        if (!rq.cmd)
                rq.cmd = "";
        *ret = rq;
        return 0;
}

/* Arguments and environment */

static char **argv_build(const struct start_request *rq) /* the strings belong to the request */
{
        size_t argc = json_array_size(rq->args);
        char **argv = calloc(argc + 2, sizeof(*argv));

        if (!argv)
                return NULL;
        argv[0] = (char *)rq->cmd;
        for (size_t i = 0; i < argc; i++)
                argv[i + 1] = (char *)json_string_value(json_array_get(rq->args, i));
        return argv;
}

static int environment_put(json_t *env, const char *name, const char *value)
{
        return json_object_set_new_nocheck(env, name, json_text(str_of(value)));
}

static json_t *environment_merge(const struct settings *s, const struct user *u, const json_t *envs)
{
        json_t *env = json_object(), *defaults = settings_env(s);

        if (!env || !defaults || environment_put(env, "PATH", DEFAULT_PATH) < 0 ||
            environment_put(env, "HOME", u->home) < 0 || environment_put(env, "USER", u->name) < 0 ||
            environment_put(env, "LOGNAME", u->name) < 0 || authorities_put(env) < 0 ||
            json_object_update(env, defaults) < 0 || (envs && json_object_update(env, (json_t *)envs) < 0)) {
                json_decref(env);
                env = NULL;
        }
        json_decref(defaults);
        return env;
}

static char **environment_flatten(json_t *env)
{
        size_t bytes = (json_object_size(env) + 1) * sizeof(char *);
        const char *name;
        char **out, **slot, *at;
        json_t *v;

        json_object_foreach (env, name, v) {
                bytes += strlen(name) + 1 + json_string_length(v) + 1;
        }
        out = slot = malloc(bytes);
        if (!out)
                return NULL;
        at = (char *)(out + json_object_size(env) + 1);
        json_object_foreach (env, name, v) {
                *slot++ = at;
                at = stpcpy(at, name);
                *at++ = '=';
                at = stpcpy(at, json_string_value(v)) + 1;
        }
        *slot = NULL;
        return out;
}

char **environment_build(const struct settings *s, const struct user *u, const json_t *envs)
{
        json_t *env = environment_merge(s, u, envs);
        char **out = env ? environment_flatten(env) : NULL;

        json_decref(env);
        return out;
}

/* Pipes or a terminal for stdin, stdout and stderr */

struct process_ends {
        int child_in, child_out, child_err; /* of the child: closed once it runs */
        int in, out, err;                   /* of the daemon: non-blocking; -1: none */
};

static void ends_done(struct process_ends *e)
{
        close_fd(&e->child_in);
        close_fd(&e->child_out);
        close_fd(&e->child_err);
        close_fd(&e->in);
        close_fd(&e->out);
        close_fd(&e->err);
}

static int make_pipe(int *ret_read, int *ret_write, int *ours)
{
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        *ret_read = fds[0];
        *ret_write = fds[1];
        return fcntl(*ours, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0; /* each end has flags of its own */
}

static int ends_pipes(struct process_ends *e, bool has_stdin)
{
        int r = make_pipe(&e->out, &e->child_out, &e->out);

        if (r == 0)
                r = make_pipe(&e->err, &e->child_err, &e->err);
        if (r < 0)
                return r;
        if (has_stdin)
                return make_pipe(&e->child_in, &e->in, &e->in);
        e->child_in = open("/dev/null", O_RDONLY | O_CLOEXEC);
        return e->child_in < 0 ? -errno : 0;
}

static int ends_terminal(struct process_ends *e, const struct process_start *ps)
{
        struct winsize size = {.ws_col = (unsigned short)ps->rq->cols, .ws_row = (unsigned short)ps->rq->rows};
        int unlock = 0;

        e->out = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
        if (e->out < 0 || ioctl(e->out, TIOCSPTLCK, &unlock) < 0)
                return -errno;
        e->child_in = ioctl(e->out, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
        if (e->child_in < 0 || ioctl(e->out, TIOCSWINSZ, &size) < 0)
                return -errno;
        if (!ps->keep_user)
                (void)!fchown(e->child_in, ps->user->uid, (gid_t)-1); /* for `echo > $(tty)`; may fail */
        e->in = fcntl(e->out, F_DUPFD_CLOEXEC, 3); /* a second fd, with its own place in the loop, for writing */
        e->child_out = fcntl(e->child_in, F_DUPFD_CLOEXEC, 3);
        e->child_err = fcntl(e->child_in, F_DUPFD_CLOEXEC, 3);
        return e->in < 0 || e->child_out < 0 || e->child_err < 0 ? -errno : 0;
}

/* Starting */

static int process_start_failed(struct fault *f, int err, const struct start_request *rq)
{
        enum connect_code code = err == EAGAIN || err == ENOMEM || err == EMFILE || err == ENFILE || err == ENOSPC
                                         ? CONNECT_RESOURCE_EXHAUSTED
                                         : CONNECT_INVALID_ARGUMENT;
        AUTO_BUF struct buf words = BUF_INIT(32u << 10); /* a long command is not repeated whole */
        const char *text;

        (void)buf_addc(&words, rq->cmd);
        for (size_t i = 0; i < json_array_size(rq->args); i++)
                (void)buf_addf(&words, " %s", json_string_value(json_array_get(rq->args, i)));
        text = buf_cstr(&words);
        return fault_sys(f, code, err, "error starting process '%s': fork/exec /bin/sh", text ? text : "");
}

static int process_start_cwd(const struct process_start *ps, char **ret, struct fault *f)
{
        struct stat st;

        if (path_expand(ps->rq->cwd, ps->user, ps->settings->default_workdir, ret, f) < 0)
                return -1;
        if (stat(*ret, &st) < 0 && errno == ENOENT)
                return fault_set(f, CONNECT_INVALID_ARGUMENT, "cwd '%s' does not exist", *ret);
        return 0;
}

static pid_t process_start_spawn(const struct process_start *ps, const struct process_ends *e, const char *cwd)
{
        AUTO_FREE char **argv = argv_build(ps->rq);
        AUTO_FREE char **env = environment_build(ps->settings, ps->user, ps->rq->envs);
        struct spawn sp = {.cmd = ps->rq->cmd,
                           .argv = argv,
                           .env = env,
                           .cwd = cwd,
                           .user = ps->keep_user ? NULL : ps->user,
                           .stdin_fd = e->child_in,
                           .stdout_fd = e->child_out,
                           .stderr_fd = e->child_err,
                           .is_terminal = ps->rq->is_pty};

        return argv && env ? spawn(&sp) : -ENOMEM;
}

static struct process *process_start_add(struct process_table *t, const struct start_request *rq, pid_t pid,
                                         struct process_ends *e)
{
        struct process from = {.pid = pid, .is_pty = rq->is_pty};
        struct process *p;

        from.in.fd = e->in;
        from.out.fd = e->out;
        from.err.fd = e->err;
        from.tag = rq->tag ? str_dup(str_of(rq->tag)) : NULL;
        from.config = rq->config ? json_incref(rq->config) : json_object();
        p = process_add(t, &from);
        if (!p) {
                free(from.tag);
                json_decref(from.config);
                return NULL;
        }
        e->in = e->out = e->err = -1;
        return p;
}

int process_start(struct process_table *t, const struct process_start *ps, struct process **ret, struct fault *f)
{
        AUTO(ends_done) struct process_ends e = {-1, -1, -1, -1, -1, -1};
        AUTO_FREE char *cwd = NULL;
        pid_t pid;
        int r;

        if (process_start_cwd(ps, &cwd, f) < 0)
                return -1;
        r = ps->rq->is_pty ? ends_terminal(&e, ps) : ends_pipes(&e, ps->rq->has_stdin);
        if (r < 0)
                return process_start_failed(f, -r, ps->rq);
        pid = process_start_spawn(ps, &e, cwd);
        if (pid < 0)
                return process_start_failed(f, -pid, ps->rq);
        *ret = process_start_add(t, ps->rq, pid, &e);
        if (*ret)
                return 0;
        (void)kill(pid, SIGKILL); /* the table could not take the process */
        (void)waitpid(pid, NULL, 0);
        return process_start_failed(f, ENOMEM, ps->rq);
}
