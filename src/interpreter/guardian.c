#include "interpreter/guardian.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "interpreter/caller_environ.h"
#include "interpreter/options.h"
#include "interpreter/restart_request.h"
#include "interpreter/serve.h"
#include "io/listener.h"

#define STOP_MS 5000       /* from SIGTERM to SIGKILL */
#define CLEAN_MS 5000      /* how long it is tried to kill what is left */
#define SHORT_LIFE_MS 5000 /* a service that ends sooner is started again only after a while */
#define DELAY_MS 1000
#define LEAVE_MS 10000 /* how long the end of the parent is waited for */
#define TITLE "code-guardian"
#define SERVICE_TITLE "sandglass-interpreter"

struct guardian {
        const struct options *options;
        int listen_fd;
        char runtime_dir[40];
        char *title; /* where the arguments are in memory, and a copy of them */
        size_t title_len;
        char *arguments;
        char **argv; /* a copy */
        int argc;
        pid_t service;
        sigset_t signals;
};

/* ---- the name in the process list ---- */

static int title_save(struct guardian *g, int argc, char **argv)
{
        char *end = argv[argc - 1] + strlen(argv[argc - 1]) + 1;

        g->title = argv[0];
        g->title_len = (size_t)(end - argv[0]);
        g->arguments = malloc(g->title_len);
        g->argv = calloc((size_t)argc + 3, sizeof(*g->argv));
        if (!g->arguments || !g->argv)
                return -ENOMEM;
        memcpy(g->arguments, g->title, g->title_len);
        g->argc = argc;
        for (int i = 0; i < argc; i++)
                g->argv[i] = g->arguments + (argv[i] - argv[0]);
        return 0;
}

static void title_hide(struct guardian *g)
{
        size_t n = strlen(TITLE);

        memset(g->title, 0, g->title_len);
        memcpy(g->title, TITLE, n < g->title_len ? n : g->title_len - 1);
        (void)prctl(PR_SET_NAME, TITLE);
}

/* The arguments stay where they are: the options point to them. */
static void title_show(struct guardian *g)
{
        memcpy(g->title, g->arguments, g->title_len);
        if (strncmp(g->title, TITLE, strlen(TITLE)) == 0 && strlen(g->title) >= strlen(SERVICE_TITLE))
                memcpy(g->title, SERVICE_TITLE, strlen(SERVICE_TITLE)); /* executed by become_guardian() */
        (void)prctl(PR_SET_NAME, SERVICE_TITLE);
}

/* A name for the execution of the next guardian: at no moment has it the name of the service.  Blanks keep room for that. */
static void title_pad(struct guardian *g)
{
        size_t n = strlen(g->argv[0]);

        if (n < strlen(SERVICE_TITLE))
                return;
        memset(g->argv[0], ' ', n);
        memcpy(g->argv[0], TITLE, strlen(TITLE));
}

/* ---- what a dead service leaves behind ---- */

static pid_t parent_of(const char *pid)
{
        char path[64], text[512];
        AUTO_CLOSE int fd = -1;
        ssize_t n;
        char *at;
        int parent = 0;

        (void)snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        if (n <= 0)
                return 0;
        text[n] = 0;
        at = strrchr(text, ')'); /* behind the name, which may have blanks */
        return at && sscanf(at + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

static void kill_children(void)
{
        DIR *proc = opendir("/proc");
        struct dirent *entry;

        while (proc && (entry = readdir(proc))) {
                uint32_t pid;

                if (isdigit((unsigned char)entry->d_name[0]) && parent_of(entry->d_name) == getpid() &&
                    parse_u32(str_of(entry->d_name), 2, INT32_MAX, &pid) == 0)
                        (void)kill((pid_t)pid, SIGKILL);
        }
        if (proc)
                (void)closedir(proc);
}

/* Children of what was killed come to us, since we are their reaper: so, again and again until there is none. */
static void clean_up(void)
{
        uint64_t end = clock_mono_ms() + CLEAN_MS;
        struct timespec pause = {.tv_nsec = 2000000};

        for (;;) {
                pid_t pid = waitpid(-1, NULL, WNOHANG);

                if (pid < 0 && errno == ECHILD)
                        return;
                if (pid > 0)
                        continue;
                if (clock_mono_ms() > end) {
                        log_warn("guardian.clean", "why=\"processes are left that cannot be killed\"");
                        return;
                }
                kill_children();
                (void)nanosleep(&pause, NULL);
        }
}

static void remove_runtime_dir(const char *path)
{
        DIR *dir = opendir(path);
        struct dirent *entry;

        while (dir && (entry = readdir(dir)))
                if (entry->d_name[0] != '.')
                        (void)unlinkat(dirfd(dir), entry->d_name, 0);
        if (dir)
                (void)closedir(dir);
        (void)rmdir(path);
}

/* ---- the service ---- */

/* Signals to the service are not for the guardian that it becomes, and would wait for it. */
static void discard_signals(const struct guardian *g)
{
        const struct timespec at_once = {0};
        sigset_t ends = g->signals;

        (void)sigdelset(&ends, SIGCHLD);
        while (sigtimedwait(&ends, NULL, &at_once) > 0)
                continue;
}

/* The guardian is dead: this process takes its place. */
static void become_guardian(struct guardian *g, uint16_t port)
{
        AUTO_FREE char *address = NULL;
        struct str listen = str_of(g->options->listen);

        while (listen.n && listen.p[listen.n - 1] != ':')
                listen.n--;
        if (asprintf(&address, "%.*s%u", STR_ARG(listen), port) < 0)
                return;
        g->argv[g->argc] = "--listen";
        g->argv[g->argc + 1] = address;
        remove_runtime_dir(g->runtime_dir);
        title_pad(g);
        discard_signals(g);
        caller_environ_put_aside();
        (void)execv("/proc/self/exe", g->argv);
        log_error("interpreter.exec", "why=\"%s\"", strerror(errno));
}

static int service_main(struct guardian *g, pid_t guardian, int guardian_fd)
{
        sigset_t none;
        uint16_t port = 0;
        enum serve_end end;

        title_show(g);
        (void)sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        (void)socket_port(g->listen_fd, &port);
        end = serve_run(&(struct serve_options){.options = g->options,
                                                .listen_fd = g->listen_fd,
                                                .guardian_fd = guardian_fd,
                                                .runtime_dir = g->runtime_dir});
        if (end == SERVE_ORPHANED || getppid() != guardian)
                become_guardian(g, port);
        return end == SERVE_STOPPED ? 0 : 1;
}

/* The service has the reading end of a pipe whose writing end only the guardian has. */
static int service_start(struct guardian *g, int *ret_pipe)
{
        pid_t self = getpid();
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        g->service = fork();
        if (g->service == 0) {
                (void)close(fds[1]);
                _exit(service_main(g, self, fds[0]));
        }
        (void)close(fds[0]);
        if (g->service < 0) {
                (void)close(fds[1]);
                return -errno;
        }
        *ret_pipe = fds[1];
        return 0;
}

/* Reap everything; true once the service itself is among it. */
static bool service_has_ended(struct guardian *g, int *ret_status)
{
        bool has_ended = false;
        int status;
        pid_t pid;

        while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
                if (pid == g->service) {
                        *ret_status = status;
                        has_ended = true;
                }
        return has_ended;
}

/* Until the service has ended: its status.  A signal to us is passed on, and is the last. */
static int service_wait(struct guardian *g, bool *ret_is_stopping)
{
        struct timespec limit = {.tv_sec = STOP_MS / 1000};
        int status = 0, signo;

        for (;;) {
                signo = *ret_is_stopping ? sigtimedwait(&g->signals, NULL, &limit) : sigwaitinfo(&g->signals, NULL);
                if (signo == SIGCHLD && service_has_ended(g, &status))
                        return status;
                if (signo < 0 && errno == EAGAIN)
                        (void)kill(g->service, SIGKILL);
                if (signo > 0 && signo != SIGCHLD) {
                        *ret_is_stopping = true;
                        (void)kill(g->service, SIGTERM);
                }
        }
}

static void pause_after_short_life(struct guardian *g, uint64_t began_ms, bool *ret_is_stopping)
{
        struct timespec limit = {.tv_sec = DELAY_MS / 1000};
        sigset_t ends = g->signals;

        (void)sigdelset(&ends, SIGCHLD);
        if (clock_mono_ms() - began_ms < SHORT_LIFE_MS && sigtimedwait(&ends, NULL, &limit) > 0)
                *ret_is_stopping = true;
}

static void guard(struct guardian *g)
{
        bool is_stopping = false;

        title_hide(g);
        restart_request_make(g->argv + 1);
        while (!is_stopping) {
                uint64_t began = clock_mono_ms();
                int pipe = -1, status, r = service_start(g, &pipe);

                if (r < 0) {
                        log_error("guardian.start", "why=\"%s\"", strerror(-r));
                        pause_after_short_life(g, began, &is_stopping);
                        continue;
                }
                status = service_wait(g, &is_stopping);
                (void)close(pipe);
                clean_up();
                if (!is_stopping) { /* whatever its status: a signal to the service alone does not end the guardian */
                        log_warn("guardian.restart", "status=%d", status);
                        pause_after_short_life(g, began, &is_stopping);
                }
        }
}

static int guardian_begin(struct guardian *g, struct err *err)
{
        uint16_t port;
        int r = listen_tcp(str_of(g->options->listen), false, &g->listen_fd, err);

        if (r < 0)
                return r;
        r = socket_port(g->listen_fd, &port);
        if (r < 0)
                return err_sys(err, r, "listening socket");
        (void)snprintf(g->runtime_dir, sizeof(g->runtime_dir), "/tmp/sandglass-interpreter-XXXXXX");
        if (!mkdtemp(g->runtime_dir))
                return err_sys(err, -errno, "make %s", g->runtime_dir);
        (void)!dprintf(STDOUT_FILENO, "listening on port %u\n", port);
        return 0;
}

/* In the child: out of the parent's session, so that no end of a terminal reaches it; then the parent may end. */
static void leave_session(struct guardian *g, int ready_fd)
{
        (void)setsid();
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
        title_hide(g);
        (void)!write(ready_fd, "", 1);
        (void)close(ready_fd);
}

/* A process whose end can be seen has given its children away already. */
static void wait_for_end(int pidfd)
{
        struct pollfd end = {.fd = pidfd, .events = POLLIN};

        if (pidfd < 0 || poll(&end, 1, LEAVE_MS) != 1)
                log_warn("guardian.detach", "why=\"the parent does not end\"");
}

/* Leave the parent, which may be sudo and passes signals on that were meant for the service: 1 in the process that is to
 * end, 0 in the one that goes on, when it is a child of PID 1.  A child of PID 1 has no such parent. */
static int guardian_detach(struct guardian *g)
{
        AUTO_CLOSE int parent = -1;
        int ready[2];
        char byte;
        pid_t pid;

        if (!g->options->is_detached || getppid() == 1)
                return 0;
        parent = pidfd_open(getpid(), 0);
        if (pipe2(ready, O_CLOEXEC) < 0)
                return -errno;
        pid = fork();
        if (pid == 0) {
                (void)close(ready[0]);
                leave_session(g, ready[1]);
                wait_for_end(parent);
                return 0;
        }
        (void)close(ready[1]);
        if (pid > 0 && read(ready[0], &byte, 1) != 1)
                pid = -1, errno = ECHILD;
        (void)close(ready[0]);
        return pid < 0 ? -errno : 1;
}

static void guardian_done(struct guardian *g)
{
        close_fd(&g->listen_fd);
        free(g->arguments);
        free(g->argv);
}

int guardian_run(const struct options *options, int argc, char **argv)
{
        struct guardian g = {.options = options, .listen_fd = -1};
        struct err err = {0};
        int r;

        (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
        (void)signal(SIGPIPE, SIG_IGN); /* of a log that nobody reads any more */
        (void)sigemptyset(&g.signals);
        (void)sigaddset(&g.signals, SIGCHLD);
        (void)sigaddset(&g.signals, SIGTERM);
        (void)sigaddset(&g.signals, SIGINT);
        (void)sigaddset(&g.signals, SIGHUP);
        (void)sigprocmask(SIG_SETMASK, &g.signals, NULL);
        clean_up(); /* a guardian that was the service before has children */
        r = title_save(&g, argc, argv);
        if (r < 0)
                (void)err_sys(&err, r, "arguments");
        else
                r = guardian_begin(&g, &err);
        if (r == 0 && (r = guardian_detach(&g)) < 0)
                (void)err_sys(&err, r, "detach");
        if (r < 0)
                log_error("interpreter.failed", "why=\"%s\"", err.msg);
        if (r == 0) {
                guard(&g);
                restart_request_drop();
                remove_runtime_dir(g.runtime_dir);
        }
        guardian_done(&g);
        return r < 0 ? 1 : 0;
}
