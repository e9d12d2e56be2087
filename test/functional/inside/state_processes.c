/* Processes, threads and signals. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "state.h"

/* Anything a fork of ours would hold on to is closed, so that it changes nobody else's check. */
static pid_t child(void (*run)(void))
{
        pid_t pid = fork();

        if (pid == 0) {
                for (int fd = 3; fd < 256; fd++)
                        (void)close(fd);
                run();
                _exit(0);
        }
        return pid;
}

static void wait_forever(void)
{
        for (;;)
                (void)pause();
}
static void nice_and_wait(void)
{
        (void)nice(7);
        (void)setpgid(0, 0);
        (void)prctl(PR_SET_NAME, "nice-one");
        wait_forever();
}
static void end_with_7(void)
{
        _exit(7);
}

static pid_t stopped, zombie, nice_one, watched;
static int pidfd;

static char state_of(pid_t pid)
{
        char path[64], text[400] = "";
        int fd;

        (void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        (void)!read(fd, text, sizeof(text) - 1);
        (void)close(fd);
        return strrchr(text, ')') ? strrchr(text, ')')[2] : '?';
}

static const char *children_make(void)
{
        siginfo_t info;

        NEED((stopped = child(wait_forever)) > 0 && kill(stopped, SIGSTOP) == 0);
        NEED(waitid(P_PID, (id_t)stopped, &info, WSTOPPED | WNOWAIT) == 0);
        NEED((zombie = child(end_with_7)) > 0 && waitid(P_PID, (id_t)zombie, &info, WEXITED | WNOWAIT) == 0);
        NEED((nice_one = child(nice_and_wait)) > 0);
        for (int i = 0; i < 5000 && getpriority(PRIO_PROCESS, (id_t)nice_one) != 7; i++)
                (void)usleep(1000);
        NEED((watched = child(wait_forever)) > 0 && (pidfd = (int)syscall(SYS_pidfd_open, watched, 0)) >= 0);
        return NULL;
}
static const char *children_check(void)
{
        struct pollfd p = {.fd = pidfd, .events = POLLIN};
        siginfo_t info;
        char name[64] = "", path[64];
        int fd, n;

        NEED(state_of(stopped) == 'T' && state_of(zombie) == 'Z');
        NEED(waitid(P_PID, (id_t)zombie, &info, WEXITED | WNOWAIT) == 0 && info.si_status == 7);
        NEED(getpriority(PRIO_PROCESS, (id_t)nice_one) == 7 && getpgid(nice_one) == nice_one);
        (void)snprintf(path, sizeof(path), "/proc/%d/comm", nice_one);
        NEED((fd = open(path, O_RDONLY)) >= 0 && read(fd, name, 63) > 0 && close(fd) == 0 &&
             strcmp(name, "nice-one\n") == 0);
        NEED(poll(&p, 1, 0) == 0 && syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) == 0);
        do
                n = poll(&p, 1, 10000);
        while (n < 0 && errno == EINTR); /* a timer of ours */
        NEED(n == 1 && waitpid(watched, NULL, 0) == watched && close(pidfd) == 0);
        NEED((watched = child(wait_forever)) > 0 && (pidfd = (int)syscall(SYS_pidfd_open, watched, 0)) >= 0);
        return NULL;
}

static int signal_fd;
static const char *signals_make(void)
{
        sigset_t set;

        (void)sigemptyset(&set);
        (void)sigaddset(&set, SIGUSR1);
        (void)sigaddset(&set, SIGUSR2);
        (void)sigaddset(&set, SIGRTMIN + 3);
        NEED(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
        NEED(raise(SIGUSR1) == 0 && sigqueue(getpid(), SIGRTMIN + 3, (union sigval){.sival_int = 77}) == 0);
        (void)sigemptyset(&set);
        (void)sigaddset(&set, SIGUSR2);
        NEED((signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC)) >= 0 && kill(getpid(), SIGUSR2) == 0);
        return NULL;
}
static const char *signals_check(void)
{
        struct signalfd_siginfo got;
        struct timespec none = {0};
        sigset_t set;
        siginfo_t info;

        NEED(sigpending(&set) == 0 && sigismember(&set, SIGUSR1) == 1);
        (void)sigemptyset(&set);
        (void)sigaddset(&set, SIGRTMIN + 3);
        NEED(sigtimedwait(&set, &info, &none) == SIGRTMIN + 3 && info.si_value.sival_int == 77);
        NEED(sigqueue(getpid(), SIGRTMIN + 3, (union sigval){.sival_int = 77}) == 0);
        NEED(read(signal_fd, &got, sizeof(got)) == sizeof(got) && got.ssi_signo == SIGUSR2);
        NEED(kill(getpid(), SIGUSR2) == 0);
        return NULL;
}

static volatile sig_atomic_t handled, on_alt_stack;
static char alt_stack[65536];
static void on_hup(int signo)
{
        char here;

        (void)signo;
        handled++;
        on_alt_stack = &here >= alt_stack && &here < alt_stack + sizeof(alt_stack);
}
static const char *handler_make(void)
{
        stack_t stack = {.ss_sp = alt_stack, .ss_size = sizeof(alt_stack)};
        struct sigaction sa = {.sa_handler = on_hup, .sa_flags = SA_ONSTACK | SA_RESTART};

        NEED(sigaltstack(&stack, NULL) == 0 && sigaction(SIGHUP, &sa, NULL) == 0);
        NEED(signal(SIGWINCH, SIG_IGN) != SIG_ERR);
        return NULL;
}
static const char *handler_check(void)
{
        int before = handled;
        struct sigaction sa;

        NEED(raise(SIGHUP) == 0 && handled == before + 1 && on_alt_stack);
        NEED(sigaction(SIGWINCH, NULL, &sa) == 0 && sa.sa_handler == SIG_IGN);
        return NULL;
}

static const char *settings_make(void)
{
        struct rlimit files = {300, 400}, core = {0, 0};

        (void)umask(027);
        NEED(setrlimit(RLIMIT_NOFILE, &files) == 0 && setrlimit(RLIMIT_CORE, &core) == 0);
        NEED(prctl(PR_SET_NAME, "state-holder") == 0 && fesetround(FE_UPWARD) == 0);
        NEED(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        return NULL;
}
static const char *settings_check(void)
{
        struct rlimit files;
        char name[16] = "";
        mode_t mask = umask(027);

        NEED(mask == 027 && getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur == 300 && files.rlim_max == 400);
        NEED(prctl(PR_GET_NAME, name) == 0 && strcmp(name, "state-holder") == 0 && fegetround() == FE_UPWARD);
        NEED(getenv("STATE_ENV") && strcmp(getenv("STATE_ENV"), "kept") == 0);
        NEED(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
        return NULL;
}

#define THREADS 4
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t asked = PTHREAD_COND_INITIALIZER, answered = PTHREAD_COND_INITIALIZER;
static unsigned round_number, answers;
static _Thread_local unsigned own; /* each thread's */
static unsigned owns[THREADS];

static void *thread(void *arg)
{
        unsigned me = (unsigned)(size_t)arg, seen = 0;
        char name[16];

        (void)snprintf(name, sizeof(name), "thread-%u", me);
        (void)prctl(PR_SET_NAME, name);
        own = 1000 * me;
        (void)pthread_mutex_lock(&mutex);
        for (;;) {
                while (seen == round_number)
                        (void)pthread_cond_wait(&asked, &mutex); /* a futex waiter */
                seen = round_number;
                owns[me] = ++own;
                if (++answers == THREADS)
                        (void)pthread_cond_signal(&answered);
        }
        return NULL;
}
static const char *threads_make(void)
{
        pthread_t t;

        for (size_t i = 0; i < THREADS; i++)
                NEED(pthread_create(&t, NULL, thread, (void *)i) == 0);
        return NULL;
}
static const char *threads_check(void)
{
        struct timespec end;
        int r = 0;

        (void)clock_gettime(CLOCK_REALTIME, &end);
        end.tv_sec += 20;
        (void)pthread_mutex_lock(&mutex);
        answers = 0;
        round_number++;
        (void)pthread_cond_broadcast(&asked);
        while (answers < THREADS && r == 0)
                r = pthread_cond_timedwait(&answered, &mutex, &end);
        (void)pthread_mutex_unlock(&mutex);
        NEED(r == 0);
        for (unsigned i = 0; i < THREADS; i++)
                NEED(owns[i] == 1000 * i + round_number);
        return NULL;
}

const struct item process_items[] = {
        {"stopped child, zombie, pidfd, nice value", children_make, children_check},
        {"pending signals, signalfd", signals_make, signals_check},
        {"signal handler on its own stack", handler_make, handler_check},
        {"limits, umask, names, environment", settings_make, settings_check},
        {"threads waiting on a futex", threads_make, threads_check},
        {0},
};
