/* tree.c - a process tree for plain CRIU: what is in a sandbox, in the simplest namespaces, without an engine.
 *
 *   tree LAYER WORK DAEMON SCRIPT
 *
 * Prints the pid of its init and leaves it running: DAEMON in an overlay on LAYER, beside it a python with SCRIPT. */
#include <err.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/auto.h"
#include "sys/mnt.h"

static int must(int r, const char *what)
{
        if (r < 0)
                err(1, "%s", what);
        return r;
}

/* Into the root, so that all it maps lies there. */
static void copy(const char *from, const char *to)
{
        AUTO_CLOSE int in = must(open(from, O_RDONLY | O_CLOEXEC), from);
        AUTO_CLOSE int out = must(open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0755), to);
        char piece[65536];
        ssize_t n;

        while ((n = read(in, piece, sizeof(piece))) > 0)
                if (write(out, piece, (size_t)n) != n)
                        err(1, "%s", to);
}

static void make_root(const char *layer, const char *work, const char *daemon)
{
        char text[8192], root[4096];

        for (const char *const *d = (const char *const[]){"u", "w", "root", NULL}; *d; d++) {
                (void)snprintf(text, sizeof(text), "%s/%s", work, *d);
                must(mkdir(text, 0755), text);
        }
        (void)snprintf(root, sizeof(root), "%s/root", work);
        (void)snprintf(text, sizeof(text), "lowerdir=%s,upperdir=%s/u,workdir=%s/w", layer, work, work);
        must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "private mounts");
        must(mount("overlay", root, "overlay", 0, text), "overlay");
        (void)snprintf(text, sizeof(text), "%s/daemon", root);
        copy(daemon, text);
        must(sys_pivot_into(root), "enter the root");
        must(mount("proc", "/proc", "proc", 0, NULL), "proc");
        (void)mknod("/dev/null", S_IFCHR | 0666, makedev(1, 3));
        (void)mknod("/dev/urandom", S_IFCHR | 0666, makedev(1, 9));
}

static void lo_up(void)
{
        AUTO_CLOSE int s = must(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket");
        struct ifreq rq = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};

        must(ioctl(s, SIOCSIFFLAGS, &rq), "lo up");
}

static void be_init(char **argv)
{
        char *python[] = {"/usr/bin/python3", "-c", argv[4], NULL}, *envp[] = {"PATH=/usr/bin:/bin", NULL};
        char *serve[] = {"/daemon", "--standalone", "--listen", "127.0.0.1:49983", NULL};
        int null;

        make_root(argv[1], argv[2], argv[3]);
        lo_up();
        must(setsid(), "session");
        null = must(open("/dev/null", O_RDWR), "/dev/null");
        for (int fd = 0; fd < 3; fd++)
                must(dup2(null, fd), "stdio");
        must(close_range(3, ~0u, 0), "close what was inherited");
        if (must(fork(), "fork") == 0)
                must(execve(python[0], python, envp), python[0]);
        must(execve(serve[0], serve, envp), "the daemon");
}

int main(int argc, char **argv)
{
        pid_t pid;

        if (argc != 5)
                errx(2, "usage: tree LAYER WORK DAEMON SCRIPT");
        must(unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS), "namespaces");
        pid = must(fork(), "fork");
        if (pid == 0)
                be_init(argv);
        (void)printf("%d\n", (int)pid);
        return 0;
}
