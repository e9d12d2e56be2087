#include "interpreter/kernel/kernel_process.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "interpreter/jupyter/kernelspec.h"

/* Below the ports that the Linux kernel gives to connections: a socket that connects to a port where nobody listens yet
 * could otherwise be given that very port, and be connected to itself. */
#define PORT_FIRST 20000u
#define PORT_LAST 32700u
#define PORT_TRIES 400
#define PORT_COUNT 5
#define OUTPUT_PIECE 4096

/* ---- ports ---- */

static int bind_port(uint16_t port)
{
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
        AUTO_CLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (fd < 0 || bind(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
                return -errno;
        return TAKE_FD(fd);
}

/* Ports that are free now, all held at the same time so that they differ. */
static int choose_ports(struct kernel_ports *ret)
{
        uint16_t *ports[PORT_COUNT] = {&ret->shell, &ret->control, &ret->iopub, &ret->stdin_, &ret->heartbeat};
        int held[PORT_COUNT], n = 0;

        for (int i = 0; i < PORT_TRIES && n < PORT_COUNT; i++) {
                uint16_t r, port;

                random_bytes(&r, sizeof(r));
                port = (uint16_t)(PORT_FIRST + r % (PORT_LAST - PORT_FIRST + 1));
                held[n] = bind_port(port);
                if (held[n] >= 0)
                        *ports[n++] = port;
        }
        for (int i = 0; i < n; i++)
                (void)close(held[i]);
        return n == PORT_COUNT ? 0 : -EADDRINUSE;
}

/* ---- the connection file ---- */

static int write_connection(int fd, const struct kernel_ports *ports, const char *key)
{
        int n = dprintf(fd,
                        "{\"shell_port\": %u, \"iopub_port\": %u, \"stdin_port\": %u, \"control_port\": %u, "
                        "\"hb_port\": %u, \"ip\": \"127.0.0.1\", \"key\": \"%s\", \"transport\": \"tcp\", "
                        "\"signature_scheme\": \"hmac-sha256\", \"kernel_name\": \"\"}\n",
                        ports->shell, ports->iopub, ports->stdin_, ports->control, ports->heartbeat, key);

        return n > 0 ? 0 : -EIO;
}

static int open_connection(const char *path, const char *dir)
{
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

        if (fd >= 0 || errno != ENOENT)
                return fd < 0 ? -errno : fd;
        if (mkdir(dir, 0700) < 0 && errno != EEXIST) /* somebody emptied /tmp */
                return -errno;
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        return fd < 0 ? -errno : fd;
}

static int connection_file_create(struct kernel_process *p, const struct kernel_process_options *opt,
                                  const struct kernel_ports *ports, struct err *err)
{
        AUTO_CLOSE int fd = -1;
        int r;

        if (asprintf(&p->file, "%s/kernel-%s.json", opt->runtime_dir, opt->name) < 0) {
                p->file = NULL;
                return err_sys(err, -ENOMEM, "connection file");
        }
        fd = open_connection(p->file, opt->runtime_dir);
        if (fd < 0)
                return err_sys(err, fd, "make %s", p->file);
        r = write_connection(fd, ports, opt->key);
        return r < 0 ? err_sys(err, r, "write %s", p->file) : 0;
}

/* ---- output ---- */

static void tail_add(struct kernel_process *p, const char *bytes, size_t n)
{
        if (n > sizeof(p->tail)) {
                bytes += n - sizeof(p->tail);
                n = sizeof(p->tail);
        }
        if (p->tail_len + n > sizeof(p->tail)) {
                size_t drop = p->tail_len + n - sizeof(p->tail);

                memmove(p->tail, p->tail + drop, p->tail_len - drop);
                p->tail_len -= drop;
        }
        memcpy(p->tail + p->tail_len, bytes, n);
        p->tail_len += n;
}

static void output_read(struct kernel_process *p)
{
        char bytes[OUTPUT_PIECE];
        ssize_t n;

        for (int i = 0; i < 16 && p->output.fd >= 0; i++) {
                n = read(p->output.fd, bytes, sizeof(bytes));
                if (n > 0) {
                        tail_add(p, bytes, (size_t)n);
                } else if (n == 0 || errno != EAGAIN) {
                        loop_del(&p->output);
                        close_fd(&p->output.fd);
                } else {
                        return;
                }
        }
}

static void output_ready(struct io *io, uint32_t events)
{
        (void)events;
        output_read(CONTAINER_OF(io, struct kernel_process, output));
}

struct str kernel_process_tail(struct kernel_process *p)
{
        struct str tail;

        output_read(p); /* what it wrote right before its end */
        tail = (struct str){p->tail, p->tail_len};
        for (size_t i = 0; i < p->tail_len; i++)
                if ((p->tail[i] < 0x20 && p->tail[i] != '\n') || p->tail[i] >= 0x7f)
                        p->tail[i] = '?';
        while (tail.n && (tail.p[tail.n - 1] == '\n' || tail.p[tail.n - 1] == ' '))
                tail.n--;
        return tail;
}

/* ---- start ---- */

struct child {
        char **argv, **env;
        const char *cwd, *home;
        int output, failure; /* fds: what it writes; the errno of a failed exec */
        struct rlimit files;
        pid_t parent;
};

static void child_signals(void)
{
        sigset_t none;

        for (int signo = 1; signo < NSIG; signo++)
                (void)signal(signo, SIG_DFL);
        (void)sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static void child_run(const struct child *c) /* only what is safe after fork in a process with threads */
{
        int nothing = open("/dev/null", O_RDWR | O_CLOEXEC), failure;

        (void)setsid();
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != c->parent)
                _exit(127);
        child_signals();
        (void)setrlimit(RLIMIT_NOFILE, &c->files);
        if (dup2(nothing, 0) < 0 || dup2(c->output, 1) < 0 || dup2(c->output, 2) < 0)
                _exit(127);
        (void)syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC);
        if (chdir(c->cwd) < 0 && chdir(c->home) < 0)
                (void)!chdir("/");
        environ = c->env; /* its PATH says where the program is, not ours */
        (void)execvp(c->argv[0], c->argv);
        failure = errno;
        (void)!write(c->failure, &failure, sizeof(failure));
        _exit(127);
}

/* Our own environment, and what the kernelspec adds.  The strings are borrowed. */
static char **environment(const struct kernelspec *spec)
{
        size_t own = 0, added = 0, n = 0;
        char **env;

        while (environ[own])
                own++;
        while (spec->env && spec->env[added])
                added++;
        env = calloc(own + added + 1, sizeof(*env));
        for (size_t i = 0; env && i < own; i++) {
                bool is_replaced = false;

                for (size_t k = 0; k < added; k++) {
                        size_t name = strcspn(spec->env[k], "=") + 1;

                        is_replaced |= strncmp(environ[i], spec->env[k], name) == 0;
                }
                if (!is_replaced)
                        env[n++] = environ[i];
        }
        for (size_t k = 0; env && k < added; k++)
                env[n++] = spec->env[k];
        return env;
}

/* fork, and wait until the child has executed the program (or could not). */
static int fork_and_exec(struct child *c, pid_t *ret)
{
        int fds[2], failure = 0;
        ssize_t n;
        pid_t pid;

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        c->failure = fds[1];
        c->parent = getpid();
        pid = fork();
        if (pid == 0)
                child_run(c);
        failure = pid < 0 ? errno : 0;
        (void)close(fds[1]);
        while (pid > 0 && (n = read(fds[0], &failure, sizeof(failure))) < 0 && errno == EINTR)
                ;
        (void)close(fds[0]);
        if (failure == 0) {
                *ret = pid;
                return 0;
        }
        return -failure; /* a child that could not execute is reaped with all others */
}

static int output_open(struct kernel_process *p, struct loop *loop, int *ret_writer)
{
        int fds[2], r;

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        (void)fcntl(fds[0], F_SETFL, O_NONBLOCK);
        p->output = (struct io){.fd = fds[0], .on = output_ready};
        r = loop_add(loop, &p->output, EPOLLIN);
        if (r < 0) {
                (void)close(fds[0]);
                (void)close(fds[1]);
                p->output.fd = -1;
                return r;
        }
        *ret_writer = fds[1];
        return 0;
}

static int spawn(struct kernel_process *p, const struct kernel_process_options *opt, struct err *err)
{
        AUTO_CLOSE int writer = -1;
        AUTO_FREE char **env = environment(opt->spec);
        struct child c = {.cwd = opt->cwd, .home = opt->home, .env = env, .files = opt->files};
        int r;

        c.argv = kernelspec_argv(opt->spec, p->file);
        if (!c.argv || !env) {
                string_list_free(c.argv);
                return err_sys(err, -ENOMEM, "start kernel");
        }
        r = output_open(p, opt->loop, &writer);
        if (r == 0) {
                c.output = writer;
                r = fork_and_exec(&c, &p->pid);
        }
        if (r < 0)
                (void)err_sys(err, r, "start '%s'", c.argv[0]);
        string_list_free(c.argv);
        return r;
}

int kernel_process_start(struct kernel_process *p, const struct kernel_process_options *opt,
                         struct kernel_ports *ret_ports, struct err *err)
{
        struct kernel_ports ports;
        int r = choose_ports(&ports);

        *p = (struct kernel_process){.output.fd = -1};
        if (r < 0)
                return err_sys(err, r, "choose ports");
        r = connection_file_create(p, opt, &ports, err);
        if (r == 0)
                r = spawn(p, opt, err);
        if (r < 0) {
                kernel_process_done(p);
                return r;
        }
        *ret_ports = ports;
        return 0;
}

void kernel_process_signal(const struct kernel_process *p, int signo)
{
        if (p->pid > 0)
                (void)kill(-p->pid, signo);
}

void kernel_process_done(struct kernel_process *p)
{
        loop_del(&p->output);
        close_fd(&p->output.fd);
        if (p->file)
                (void)unlink(p->file);
        free(p->file);
        p->file = NULL;
        p->pid = 0;
}
