#include "client/modes/local_program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "sys/proc.h"

#define PIECE_BYTES (64u << 10)
#define PIPE_READS_MAX 256u /* of what a pipe holds after its writers were ended: reads may be short */
#define END_WAIT_MS 1000u   /* between SIGTERM and SIGKILL */
#define KILL_WAIT_MS 5000   /* the kernel may be slow to end what it has killed */

enum { OUT, ERR, STREAMS };

struct local_program {
        pid_t pid;            /* also the number of the group */
        int pidfd, events;    /* owned; the epoll fd has pidfd and the streams */
        int streams[STREAMS]; /* owned; -1: ended */
        struct program_output *output;
        bool has_ended; /* ... and was waited for: the number is no longer ours */
};

static void program_done(struct local_program *p)
{
        for (size_t i = 0; i < STREAMS; i++)
                close_fd(&p->streams[i]);
        close_fd(&p->pidfd);
        close_fd(&p->events);
}

/* ---- start ---- */

/* The library may be used in a process without standard streams: then pipes would have their numbers. */
static int above_streams(int *fd)
{
        int other;

        if (*fd < 0)
                return -errno;
        if (*fd > STDERR_FILENO)
                return 0;
        other = fcntl(*fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        (void)close(*fd);
        *fd = other;
        return other < 0 ? -errno : 0;
}

static int stream_pipe(int *ret_read, int *ret_write)
{
        int fds[2], r;

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        *ret_read = fds[0];
        *ret_write = fds[1];
        r = above_streams(ret_read);
        if (r == 0)
                r = above_streams(ret_write);
        if (r == 0 && fcntl(*ret_read, F_SETFL, O_NONBLOCK) < 0)
                r = -errno;
        return r;
}

/* What the program reads: a file in memory, so that nobody has to write while it reads. */
static int input_open(const struct sg_program *program, int *ret)
{
        size_t at = 0;

        if (program->reads_fd)
                *ret = fcntl(program->input_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        else if (!program->input_len)
                *ret = open("/dev/null", O_RDONLY | O_CLOEXEC);
        else
                *ret = memfd_create("input", MFD_CLOEXEC);
        while (*ret >= 0 && !program->reads_fd && at < program->input_len) {
                ssize_t n = write(*ret, program->input + at, program->input_len - at);

                if (n < 0 && errno != EINTR)
                        return -errno;
                at += n > 0 ? (size_t)n : 0;
        }
        if (at && lseek(*ret, 0, SEEK_SET) < 0)
                return -errno;
        return above_streams(ret);
}

static int add_actions(posix_spawn_file_actions_t *actions, int dir, const int from[3])
{
        int r = 0;

        for (int to = 0; to < 3 && r == 0; to++)
                r = posix_spawn_file_actions_adddup2(actions, from[to], to);
        if (r == 0)
                r = posix_spawn_file_actions_addfchdir_np(actions, dir);
        return r ? r : posix_spawn_file_actions_addclosefrom_np(actions, STDERR_FILENO + 1);
}

static int add_attributes(posix_spawnattr_t *attributes)
{
        sigset_t all, none;
        int r = posix_spawnattr_setflags(attributes,
                                         POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

        (void)sigfillset(&all);
        (void)sigemptyset(&none);
        if (r == 0)
                r = posix_spawnattr_setpgroup(attributes, 0);
        if (r == 0)
                r = posix_spawnattr_setsigmask(attributes, &none);
        return r ? r : posix_spawnattr_setsigdefault(attributes, &all);
}

/* The pid, or a negative errno. */
static pid_t spawn(const char *const *argv, char *const *env, int dir, const int from[3])
{
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attributes;
        pid_t pid = -1;
        int r = posix_spawn_file_actions_init(&actions);

        if (r)
                return -r;
        r = posix_spawnattr_init(&attributes);
        if (r == 0) {
                r = add_actions(&actions, dir, from);
                if (r == 0)
                        r = add_attributes(&attributes);
                if (r == 0)
                        r = posix_spawnp(&pid, argv[0], &actions, &attributes, (char *const *)(uintptr_t)argv, env);
                (void)posix_spawnattr_destroy(&attributes);
        }
        (void)posix_spawn_file_actions_destroy(&actions);
        return r ? -r : pid;
}

static int start_error(struct sg_error *err, int r, const char *name)
{
        switch (r) {
        case -ENOENT: return error_set(err, SG_NOT_FOUND, "there is no program '%.100s' on this machine", name);
        case -ENOEXEC:
        case -EACCES: return error_set(err, SG_DENIED, "'%.100s' cannot be run: %s", name, strerror(-r));
        case -E2BIG: return error_set(err, SG_INVALID, "arguments and variables of '%.100s' are too long", name);
        default: return error_sys(err, r, "start '%.100s'", name);
        }
}

static int watch(struct local_program *p, int fd, uint32_t what)
{
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = what};

        return epoll_ctl(p->events, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int program_watch(struct local_program *p)
{
        int r;

        p->events = epoll_create1(EPOLL_CLOEXEC);
        if (p->events < 0)
                return -errno;
        p->pidfd = sys_pidfd_open(p->pid);
        if (p->pidfd < 0)
                return p->pidfd;
        r = watch(p, p->pidfd, STREAMS);
        for (uint32_t i = 0; i < STREAMS && r == 0; i++)
                r = watch(p, p->streams[i], i);
        return r;
}

static int program_start(struct local_program *p, const struct sg_program *program, int dir, char *const *env,
                         struct sg_error *err)
{
        AUTO_CLOSE int in = -1, out = -1, errors = -1;
        int r = stream_pipe(&p->streams[OUT], &out);

        if (r == 0)
                r = stream_pipe(&p->streams[ERR], &errors);
        if (r == 0)
                r = input_open(program, &in);
        if (r < 0)
                return error_sys(err, r, "prepare '%.100s'", program->argv[0]);
        p->pid = spawn(program->argv, env, dir, (const int[]){in, out, errors});
        if (p->pid < 0)
                return start_error(err, p->pid, program->argv[0]);
        return 0;
}

/* ---- output and end ---- */

/* One read.  > 0: there may be more; 0: nothing now, or the stream has ended. */
static int stream_read(struct local_program *p, uint32_t which, struct sg_error *err)
{
        char piece[PIECE_BYTES];
        ssize_t n = p->streams[which] < 0 ? 0 : read(p->streams[which], piece, sizeof(piece));
        int r;

        if (n < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : error_sys(err, -errno, "read the program's output");
        if (n == 0) {
                close_fd(&p->streams[which]); /* leaves the epoll set, too */
                return 0;
        }
        r = program_output_feed(p->output, which == ERR, (struct str){piece, (size_t)n}, err);
        return r < 0 ? r : 1;
}

/* The program has ended: end its group, and learn how it ended.  As long as it was not waited for, its number is the group's. */
static int program_reap(struct local_program *p, struct sg_error *err)
{
        siginfo_t how = {0};
        int r;

        (void)kill(-p->pid, SIGKILL);
        do
                r = waitid(P_PIDFD, (id_t)p->pidfd, &how, WEXITED);
        while (r < 0 && errno == EINTR);
        p->has_ended = true;
        if (r < 0) /* this process ignores SIGCHLD, or something else in it waits for any child */
                return error_sys(err, -errno, "learn how the program ended");
        p->output->end.signal = how.si_code == CLD_EXITED ? 0 : how.si_status;
        p->output->end.exit_code = how.si_code == CLD_EXITED ? how.si_status : 128 + how.si_status;
        return 0;
}

/* What the pipes still hold.  Who left the group may hold them open: so much and no more. */
static int read_rest(struct local_program *p, struct sg_error *err)
{
        for (uint32_t i = 0; i < STREAMS; i++) {
                int r = 1;

                for (size_t reads = 0; r > 0 && reads < PIPE_READS_MAX; reads++)
                        r = stream_read(p, i, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int program_step(struct local_program *p, struct sg_error *err)
{
        struct epoll_event events[STREAMS + 1];
        int n = epoll_wait(p->events, events, ARRAY_LEN(events), 0), r = 0;
        bool has_ended = false;

        if (n < 0 && errno != EINTR)
                return error_sys(err, -errno, "wait for the program");
        for (int i = 0; i < n && r >= 0; i++) {
                if (events[i].data.u32 == STREAMS)
                        has_ended = true;
                else
                        r = stream_read(p, events[i].data.u32, err);
        }
        if (r < 0 || !has_ended)
                return r;
        r = program_reap(p, err);
        return r < 0 ? r : read_rest(p, err);
}

/* Nobody wants its output any more, but a program that waits for somebody to read does not end. */
static void drop_output(struct local_program *p)
{
        char piece[PIECE_BYTES];

        for (size_t i = 0; i < STREAMS; i++)
                if (p->streams[i] >= 0 && read(p->streams[i], piece, sizeof(piece)) == 0)
                        close_fd(&p->streams[i]);
}

static void program_kill(struct local_program *p)
{
        uint64_t due = clock_mono_ms() + END_WAIT_MS, now;

        (void)kill(-p->pid, SIGTERM);
        while (p->pidfd >= 0 && !sys_pidfd_is_dead(p->pidfd) && (now = clock_mono_ms()) < due) {
                struct pollfd fds[] = {{.fd = p->pidfd, .events = POLLIN},
                                       {.fd = p->streams[OUT], .events = POLLIN},
                                       {.fd = p->streams[ERR], .events = POLLIN}};

                (void)poll(fds, ARRAY_LEN(fds), (int)(due - now));
                drop_output(p);
        }
        (void)kill(-p->pid, SIGKILL);
        if (p->pidfd < 0 || sys_pidfd_wait(p->pidfd, KILL_WAIT_MS) == 0)
                (void)waitpid(p->pid, NULL, p->pidfd < 0 ? 0 : WNOHANG);
        p->has_ended = true;
}

int local_program_run(const struct sg_program *program, int dir, char *const *env, struct program_output *output,
                      struct limit *limit, struct sg_error *err)
{
        AUTO(program_done) struct local_program p = {.pidfd = -1, .events = -1, .streams = {-1, -1}, .output = output};
        int r = program_start(&p, program, dir, env, err);

        if (r < 0)
                return r;
        r = program_watch(&p);
        if (r < 0)
                (void)error_sys(err, r, "wait for the program");
        while (r >= 0 && !p.has_ended) {
                r = limit_wait_fd(limit, p.events, err);
                if (r >= 0)
                        r = program_step(&p, err);
        }
        if (!p.has_ended)
                program_kill(&p);
        return r < 0 ? r : program_output_finish(output, err);
}
