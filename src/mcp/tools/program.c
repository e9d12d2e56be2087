#include "mcp/tools/program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

#include "base/err.h"
#include "mcp/tools/program_env.h"

#define READ_BYTES (64u << 10)
#define READS_AT_ONCE 8 /* then others have their turn */

static struct list programs = {
        &programs, &programs}; /* those that were not reaped: a signal of the whole process comes for them */

static bool is_over(const struct program *p)
{
        return p->pid == 0 && p->out.fd < 0 && p->err.fd < 0;
}

static void program_look(struct program *p)
{
        if (is_over(p))
                loop_post(p->opt.loop, &p->ended);
        else if (p->pid == 0 && !timer_is_armed(&p->linger))
                timer_set(p->opt.loop, &p->linger, PROGRAM_LINGER_MS);
}

static void close_io(struct io *io)
{
        loop_del(io);
        close_fd(&io->fd);
}

static void run_ended(struct task *t)
{
        struct program *p = CONTAINER_OF(t, struct program, ended);

        timer_clear(&p->linger);
        p->opt.on_end(p, p->opt.arg);
}

static void read_output(struct program *p, struct io *io, enum program_output which)
{
        static char piece[READ_BYTES];

        for (int i = 0; i < READS_AT_ONCE && io->fd >= 0; i++) {
                ssize_t n = read(io->fd, piece, sizeof(piece));

                if (n > 0) {
                        p->opt.on_output(p, which, (struct str){piece, (size_t)n}, p->opt.arg);
                } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
                        return;
                } else {
                        close_io(io);
                        program_look(p);
                }
        }
}

static void on_linger(struct timer *t)
{
        struct program *p = CONTAINER_OF(t, struct program, linger);

        if (p->out.fd >= 0)
                close_io(&p->out);
        if (p->err.fd >= 0)
                close_io(&p->err);
        program_look(p);
}

static void on_out(struct io *io, uint32_t events)
{
        (void)events;
        read_output(CONTAINER_OF(io, struct program, out), io, PROGRAM_STDOUT);
}

static void on_err(struct io *io, uint32_t events)
{
        (void)events;
        read_output(CONTAINER_OF(io, struct program, err), io, PROGRAM_STDERR);
}

static void write_input(struct program *p)
{
        while (p->input.len > 0) {
                ssize_t n = buf_drain(&p->input, p->in.fd);

                if (n == -EAGAIN || n == -EINTR) {
                        loop_want(&p->in, EPOLLOUT);
                        return;
                }
                if (n < 0) {
                        close_io(&p->in);
                        buf_done(&p->input);
                        return;
                }
        }
        loop_want(&p->in, 0);
        if (p->closes_stdin)
                close_io(&p->in);
}

static void on_in(struct io *io, uint32_t events)
{
        struct program *p = CONTAINER_OF(io, struct program, in);

        if (events & (EPOLLERR | EPOLLHUP)) { /* nobody reads any more */
                close_io(io);
                buf_done(&p->input);
                return;
        }
        write_input(p);
}

int program_write(struct program *p, struct str bytes)
{
        int r;

        if (p->in.fd < 0 || p->closes_stdin)
                return -EPIPE;
        r = buf_add(&p->input, bytes.p, bytes.n);
        if (r == 0)
                write_input(p);
        return r;
}

void program_close_stdin(struct program *p)
{
        p->closes_stdin = true;
        if (p->in.fd >= 0)
                write_input(p);
}

void program_signal(struct program *p, int sig)
{
        if (p->pid > 0)
                (void)kill(-p->pid, sig);
}

int program_exit_code(const struct program *p)
{
        return WIFEXITED(p->status) ? WEXITSTATUS(p->status) : 128 + WTERMSIG(p->status);
}

void program_reap(void)
{
        int status;
        pid_t pid;

        while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
                LIST_EACH (at, &programs) {
                        struct program *p = LIST_ENTRY(at, struct program, node);

                        if (p->pid != pid)
                                continue;
                        p->pid = 0;
                        p->status = status;
                        list_remove(&p->node);
                        if (p->in.fd >= 0)
                                close_io(&p->in);
                        program_look(p);
                }
}

struct program *program_free(struct program *p)
{
        if (!p)
                return NULL;
        if (p->pid > 0) {
                (void)kill(-p->pid, SIGKILL); /* the zombie is reaped with all others */
                list_remove(&p->node);
        }
        close_io(&p->out);
        close_io(&p->err);
        close_io(&p->in);
        buf_done(&p->input);
        timer_clear(&p->linger);
        loop_unpost(&p->ended);
        free(p);
        return NULL;
}

/* ---- starting ---- */

bool program_is_installed(const char *name)
{
        const char *rest = "/bin:/usr/bin"; /* without PATH, as posix_spawnp() has it */

        for (size_t i = 0; environ[i]; i++)
                if (strncmp(environ[i], "PATH=", 5) == 0)
                        rest = environ[i] + 5;
        while (*rest) {
                size_t n = strcspn(rest, ":");
                char path[PATH_MAX];

                if (n && snprintf(path, sizeof(path), "%.*s/%s", (int)n, rest, name) < PATH_MAX &&
                    access(path, X_OK) == 0)
                        return true;
                rest += n + (rest[n] == ':');
        }
        return false;
}

struct pipes {
        int in[2], out[2], err[2]; /* ours, the program's */
};

static void pipes_close(struct pipes *pp)
{
        for (int i = 0; i < 2; i++) {
                close_fd(&pp->in[i]);
                close_fd(&pp->out[i]);
                close_fd(&pp->err[i]);
        }
}

static int make_pipe(int *ours, int *theirs, bool we_write)
{
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        *ours = fds[we_write ? 1 : 0];
        *theirs = fds[we_write ? 0 : 1];
        return fcntl(*ours, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

static int pipes_make(struct pipes *pp, const struct program_options *opt)
{
        int r = 0;

        if (opt->keeps_stdin)
                r = make_pipe(&pp->in[0], &pp->in[1], true);
        if (r == 0 && !opt->drops_output)
                r = make_pipe(&pp->out[0], &pp->out[1], false);
        if (r == 0 && !opt->drops_output)
                r = make_pipe(&pp->err[0], &pp->err[1], false);
        return r;
}

static int set_up(posix_spawn_file_actions_t *fa, posix_spawnattr_t *at, const struct program_options *opt,
                  const struct pipes *pp)
{
        sigset_t none, all;
        int r = 0;

        (void)sigemptyset(&none);
        (void)sigfillset(&all);
        if (pp->in[1] >= 0)
                r = posix_spawn_file_actions_adddup2(fa, pp->in[1], 0);
        else
                r = posix_spawn_file_actions_addopen(fa, 0, "/dev/null", O_RDONLY, 0);
        for (int fd = 1; fd <= 2 && r == 0; fd++) {
                int theirs = fd == 1 ? pp->out[1] : pp->err[1];

                r = theirs >= 0 ? posix_spawn_file_actions_adddup2(fa, theirs, fd)
                                : posix_spawn_file_actions_addopen(fa, fd, "/dev/null", O_WRONLY, 0);
        }
        for (unsigned i = 0; i < opt->extra_count && r == 0; i++)
                r = posix_spawn_file_actions_adddup2(fa, opt->extra[i], opt->extra_at[i]);
        if (r == 0)
                r = posix_spawn_file_actions_addchdir_np(fa, opt->cwd);
        if (r == 0)
                r = posix_spawnattr_setflags(at, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        if (r == 0)
                r = posix_spawnattr_setsigmask(at, &none);
        return r != 0 ? r : posix_spawnattr_setsigdefault(at, &all);
}

static struct rlimit first_limit; /* rlim_max 0: it was not raised */

void program_raise_limit(void)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
                return;
        first_limit = limit;
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* A new descriptor has the lowest free number. */
static bool is_short_of_fds(void)
{
        AUTO_CLOSE int fd = open("/", O_PATH | O_CLOEXEC);
        struct rlimit limit;

        return fd < 0 || (getrlimit(RLIMIT_NOFILE, &limit) == 0 && (rlim_t)fd + PROGRAM_SPARE_FDS >= limit.rlim_cur);
}

/* Some programs close every descriptor that they might have, or allocate a table for them: they get the limit they know.  One that
 * is lower than what is open here closes nothing. */
static int spawn_limited(pid_t *ret, const struct program_options *opt, const posix_spawn_file_actions_t *fa,
                         const posix_spawnattr_t *at, char **vars)
{
        struct rlimit own;
        bool is_raised = first_limit.rlim_max && getrlimit(RLIMIT_NOFILE, &own) == 0;
        int r;

        if (is_raised)
                (void)setrlimit(RLIMIT_NOFILE, &first_limit);
        r = posix_spawnp(ret, opt->argv[0], fa, at, (char *const *)(uintptr_t)opt->argv, vars);
        if (is_raised)
                (void)setrlimit(RLIMIT_NOFILE, &own);
        return r;
}

static int spawn_child(const struct program_options *opt, const struct pipes *pp, pid_t *ret)
{
        posix_spawn_file_actions_t fa;
        posix_spawnattr_t at;
        AUTO_PROGRAM_ENV struct program_env env = {0};
        int r = program_env_init(&env, PROGRAM_ENV_FILE, opt->env);

        if (r < 0)
                return r;
        r = posix_spawn_file_actions_init(&fa);
        if (r != 0)
                return -r;
        r = posix_spawnattr_init(&at);
        if (r == 0) {
                r = set_up(&fa, &at, opt, pp);
                if (r == 0)
                        r = spawn_limited(ret, opt, &fa, &at, env.vars);
                (void)posix_spawnattr_destroy(&at);
        }
        (void)posix_spawn_file_actions_destroy(&fa);
        return -r;
}

static int watch(struct program *p, struct pipes *pp)
{
        int r = 0;

        p->out = (struct io){.fd = TAKE_FD(pp->out[0]), .on = on_out};
        p->err = (struct io){.fd = TAKE_FD(pp->err[0]), .on = on_err};
        p->in = (struct io){.fd = TAKE_FD(pp->in[0]), .on = on_in};
        if (p->out.fd >= 0)
                r = loop_add(p->opt.loop, &p->out, EPOLLIN);
        if (r == 0 && p->err.fd >= 0)
                r = loop_add(p->opt.loop, &p->err, EPOLLIN);
        if (r == 0 && p->in.fd >= 0)
                r = loop_add(p->opt.loop, &p->in, 0);
        return r;
}

int program_start(const struct program_options *opt, struct program **ret, struct err *err)
{
        struct pipes pp = {{-1, -1}, {-1, -1}, {-1, -1}};
        struct program *p;
        int r;

        if (is_short_of_fds())
                return err_set(err, ERR_LIMIT,
                               "too many programs and connections are open here: end some commands or sessions");
        p = calloc(1, sizeof(*p));
        if (!p)
                return err_sys(err, -ENOMEM, "start %s", opt->argv[0]);
        p->opt = *opt;
        p->out.fd = p->err.fd = p->in.fd = -1;
        p->ended.run = run_ended;
        p->linger.on = on_linger;
        buf_init(&p->input, PROGRAM_INPUT_BYTES_MAX);
        r = pipes_make(&pp, opt);
        if (r == 0)
                r = watch(p, &pp);
        if (r == 0)
                r = spawn_child(opt, &pp, &p->pid);
        pipes_close(&pp);
        if (r < 0) {
                p->pid = 0;
                program_free(p);
                if (r == -ENOENT && access(opt->cwd, X_OK) < 0)
                        return err_set(err, ERR_NOT_FOUND, "the directory %s does not exist", opt->cwd);
                return r == -ENOENT ? err_set(err, ERR_NOT_FOUND, "the program %s is not installed", opt->argv[0])
                                    : err_sys(err, r, "start %s", opt->argv[0]);
        }
        list_push_back(&programs, &p->node);
        *ret = p;
        return 0;
}
