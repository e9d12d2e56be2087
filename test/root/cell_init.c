/* cell_init.c - the root tests' payload: a tiny init that speaks envd_init.h, then does as told over TCP.
 *
 * One command line per connection on port 49983, one answer, end.  Static, so that it runs in an empty root; each
 * command runs in a child of its own. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <dirent.h>
#include <unistd.h>

#include "model/envd_init.h"
#include "model/ids.h"

static _Noreturn void refuse(const char *what)
{
        dprintf(ENVD_CELL_FD, "%c%s: %s", ENVD_CELL_FAILED, what, strerror(errno));
        _exit(1);
}

static int read_all(int fd, char *p, size_t n)
{
        while (n > 0) {
                ssize_t r = read(fd, p, n);

                if (r <= 0)
                        return -1;
                p += r;
                n -= (size_t)r;
        }
        return 0;
}

/* The init message: the root's fd rides on its first byte, and that of the boot id, if there is one. */
static char *receive_init(int fds[ENVD_INIT_FDS_MAX])
{
        union {
                struct cmsghdr align;
                char bytes[CMSG_SPACE(ENVD_INIT_FDS_MAX * sizeof(int))];
        } c;
        uint8_t head[4];
        struct iovec iov = {head, sizeof(head)};
        struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = c.bytes, .msg_controllen = sizeof(c.bytes)};
        ssize_t n = recvmsg(ENVD_CELL_FD, &m, 0);
        size_t len;
        char *text;

        if (n <= 0)
                _exit(0); /* the engine is gone */
        if (n < 4 && read_all(ENVD_CELL_FD, (char *)head + n, (size_t)(4 - n)) < 0)
                _exit(1);
        if (!CMSG_FIRSTHDR(&m))
                refuse("no root came");
        memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&m)), CMSG_FIRSTHDR(&m)->cmsg_len - CMSG_LEN(0));
        len = (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
        text = calloc(1, len + 1);
        if (!text || read_all(ENVD_CELL_FD, text, len) < 0)
                refuse("init message");
        return text;
}

static void hang_up(int mount, const char *at)
{
        if (move_mount(mount, "", AT_FDCWD, at, MOVE_MOUNT_F_EMPTY_PATH) < 0 &&
            (mkdir(at, 0755) < 0 || move_mount(mount, "", AT_FDCWD, at, MOVE_MOUNT_F_EMPTY_PATH) < 0))
                refuse(at);
        (void)close(mount);
}

static void enter_root(const int fds[ENVD_INIT_FDS_MAX])
{
        static const char *const places[] = {"/proc", "/sys", "/dev"};
        int mounts[3];

        for (int i = 0; i < 3; i++)
                mounts[i] = open(places[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (move_mount(fds[0], "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0)
                refuse("move root");
        if (fchdir(fds[0]) < 0 || chroot(".") < 0)
                refuse("enter root");
        for (int i = 0; i < 3; i++)
                hang_up(mounts[i], places[i]);
        if (fds[1] >= 0)
                hang_up(fds[1], ENVD_BOOT_ID);
        (void)close(fds[0]);
}

static int listen_on(uint16_t port)
{
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        if (fd < 0 || bind(fd, (struct sockaddr *)(void *)&a, sizeof(a)) < 0 || listen(fd, 64) < 0)
                refuse("listen");
        return fd;
}

/* ------------------------------------------------------------- commands; each answers on fd 1 */

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *fmt, ...)
{
        va_list ap;

        va_start(ap, fmt);
        (void)vdprintf(1, fmt, ap);
        va_end(ap);
}

static void say_result(long r)
{
        if (r < 0)
                say("%s", strerrorname_np(errno));
        else
                say("ok");
}

static void do_read(const char *path)
{
        char text[65536];
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

        if (n < 0)
                say("%s", strerrorname_np(errno));
        else
                say("%.*s", (int)n, text);
}

static void do_write(char *rest)
{
        char *path = strsep(&rest, " ");
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

        say_result(fd < 0 ? -1 : write(fd, rest, strlen(rest)));
}

static void do_list(const char *path)
{
        DIR *d = opendir(path);
        struct dirent *e;

        if (!d) {
                say("%s", strerrorname_np(errno));
                return;
        }
        while ((e = readdir(d)))
                if (e->d_name[0] != '.')
                        say("%s ", e->d_name);
}

static void do_stat(const char *path)
{
        struct stat st;

        if (lstat(path, &st) < 0)
                say("%s", strerrorname_np(errno));
        else
                say("%o %u %u", st.st_mode & 07777, st.st_uid, st.st_gid);
}

static void do_connect(char *rest) /* ADDR PORT: what becomes of it within a second */
{
        char *addr = strsep(&rest, " ");
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)strtoul(rest, NULL, 10))};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), e = 0;
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        socklen_t len = sizeof(e);

        (void)inet_pton(AF_INET, addr, &to.sin_addr);
        if (connect(fd, (struct sockaddr *)(void *)&to, sizeof(to)) < 0 && errno != EINPROGRESS) {
                say("%s", strerrorname_np(errno));
                return;
        }
        if (poll(&p, 1, 1000) == 0) {
                say("silence");
                return;
        }
        (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &len);
        say("%s", e ? strerrorname_np(e) : "connected");
}

static void do_hog(const char *mib) /* touch that much; the answer is how it ended */
{
        size_t n = (size_t)strtoul(mib, NULL, 10) << 20;
        int st = 0;
        pid_t pid;

        (void)signal(SIGCHLD, SIG_DFL); /* so that there is something to wait for */
        pid = fork();
        if (pid == 0) {
                char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

                if (p == MAP_FAILED)
                        _exit(2);
                memset(p, 1, n);
                _exit(0);
        }
        (void)waitpid(pid, &st, 0);
        say("%s", WIFSIGNALED(st) ? "killed" : "fits");
}

static void do_forks(const char *count) /* how many children can live at once, of that many */
{
        unsigned want = (unsigned)strtoul(count, NULL, 10), have = 0;

        while (have < want) {
                pid_t pid = fork();

                if (pid < 0)
                        break;
                if (pid == 0) {
                        (void)pause();
                        _exit(0);
                }
                have++;
        }
        say("%u", have);
        (void)kill(0, SIGKILL);
}

static void do_inotify(const char *count) /* and hold them until the connection ends */
{
        unsigned want = (unsigned)strtoul(count, NULL, 10), have = 0;
        char c;

        while (have < want && inotify_init1(IN_CLOEXEC) >= 0)
                have++;
        say("%u\n", have);
        while (read(1, &c, 1) > 0)
                ;
}

static void do_ptys(const char *count)
{
        unsigned want = (unsigned)strtoul(count, NULL, 10), have = 0;

        while (have < want && open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC) >= 0)
                have++;
        say("%u", have);
}

static void do_ping(const char *address) /* an echo request from a datagram socket: "reply", or why not */
{
        struct sockaddr_in to = {.sin_family = AF_INET};
        const struct timeval patience = {.tv_sec = 5};
        unsigned char echo[16] = {8}, back[64]; /* ICMP echo; the kernel fills in identifier and checksum */
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_ICMP);

        if (fd < 0 || inet_pton(AF_INET, address, &to.sin_addr) != 1 ||
            setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
            sendto(fd, echo, sizeof(echo), 0, (const struct sockaddr *)&to, sizeof(to)) < 0 ||
            recv(fd, back, sizeof(back), 0) < 8)
                say("%s", strerrorname_np(errno));
        else
                say("%s", back[0] == 0 ? "reply" : "something else");
        if (fd >= 0)
                (void)close(fd);
}

static void do_stuff(const char *mib) /* fill sockets nobody reads from: how much of it goes in */
{
        size_t want = (size_t)strtoul(mib, NULL, 10) << 20, have = 0;
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
        socklen_t len = sizeof(a);
        int ln = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        static const char bytes[65536];

        if (bind(ln, (struct sockaddr *)(void *)&a, sizeof(a)) < 0 || listen(ln, 512) < 0 ||
            getsockname(ln, (struct sockaddr *)(void *)&a, &len) < 0) {
                say("%s", strerrorname_np(errno));
                return;
        }
        for (unsigned i = 0; i < 200 && have < want; i++) {
                int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), size = 4 << 20;
                ssize_t n;

                (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
                if (connect(fd, (struct sockaddr *)(void *)&a, sizeof(a)) < 0)
                        break;
                while (have < want && (n = send(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
                        have += (size_t)n;
        }
        say("%zu", have >> 20);
}

static void do_datagrams(char *rest) /* ADDR COUNT: each to another port, from another */
{
        char *addr = strsep(&rest, " ");
        unsigned count = (unsigned)strtoul(rest, NULL, 10), fds = 0;
        struct sockaddr_in to = {.sin_family = AF_INET};
        int from[8];

        (void)inet_pton(AF_INET, addr, &to.sin_addr);
        while (fds < 8)
                from[fds++] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        for (unsigned i = 0; i < count; i++) {
                to.sin_port = htons((uint16_t)(1024 + i / fds));
                (void)sendto(from[i % fds], "x", 1, 0, (struct sockaddr *)(void *)&to, sizeof(to));
        }
        say("sent");
}

static void do_listen6(const char *port) /* on ::1 only, for one connection */
{
        struct sockaddr_in6 a = {.sin6_family = AF_INET6,
                                 .sin6_port = htons((uint16_t)strtoul(port, NULL, 10)),
                                 .sin6_addr = in6addr_loopback};
        int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), conn;

        if (bind(fd, (struct sockaddr *)(void *)&a, sizeof(a)) < 0 || listen(fd, 1) < 0) {
                say("%s", strerrorname_np(errno));
                return;
        }
        say("listening");
        (void)shutdown(1, SHUT_RDWR);
        conn = accept(fd, NULL, NULL);
        (void)dprintf(conn, "six");
}

static long escape_chroot(void)
{
        int top = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (top < 0 || chroot("/tmp") < 0 || fchdir(top) < 0)
                return -1;
        for (int i = 0; i < 16; i++)
                if (chdir("..") < 0)
                        return -1;
        if (chroot(".") < 0)
                return -1;
        return access("/tmp", F_OK) == 0 && access("/proc/self", F_OK) == 0 ? (errno = ENOTEMPTY, -1) : 0;
}

static long try_syscall(const char *name)
{
        if (strcmp(name, "mount") == 0)
                return mount("none", "/tmp", "tmpfs", 0, NULL);
        if (strcmp(name, "umount") == 0)
                return umount2("/proc", MNT_DETACH);
        if (strcmp(name, "unshare-user") == 0)
                return unshare(CLONE_NEWUSER);
        if (strcmp(name, "unshare-files") == 0)
                return unshare(CLONE_FILES);
        if (strcmp(name, "clone-newns") == 0)
                return syscall(SYS_clone, CLONE_NEWNS | SIGCHLD, NULL, NULL, NULL, 0);
        if (strcmp(name, "clone3") == 0)
                return syscall(SYS_clone3, NULL, 0);
        if (strcmp(name, "setns") == 0)
                return setns(-1, 0);
        if (strcmp(name, "io_uring") == 0)
                return syscall(SYS_io_uring_setup, 1, NULL);
        if (strcmp(name, "aio") == 0)
                return syscall(SYS_io_setup, 1, &(unsigned long){0});
        if (strcmp(name, "x32") == 0)
                return syscall(0x40000000 | SYS_mount, "none", "/tmp", "tmpfs", 0, NULL);
        if (strcmp(name, "chroot-out") == 0) /* by the root's own descriptor: there is nothing above it */
                return escape_chroot();
        if (strcmp(name, "bpf") == 0)
                return syscall(SYS_bpf, 0, NULL, 0);
        if (strcmp(name, "keyctl") == 0)
                return syscall(SYS_keyctl, 0, 0, 0, 0, 0);
        if (strcmp(name, "fsopen") == 0)
                return fsopen("tmpfs", 0);
        if (strcmp(name, "open_tree") == 0)
                return open_tree(AT_FDCWD, "/", OPEN_TREE_CLONE);
        if (strcmp(name, "settime") == 0)
                return syscall(SYS_settimeofday, NULL, NULL);
        if (strcmp(name, "syslog") == 0)
                return syscall(SYS_syslog, 3, NULL, 0);
        if (strcmp(name, "tiocsti") == 0)
                return ioctl(0, 0xffff00000000ull | TIOCSTI, "x");
        if (strcmp(name, "socket-packet") == 0)
                return socket(AF_PACKET, SOCK_RAW, 0);
        if (strcmp(name, "socket-raw") == 0)
                return socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
        if (strcmp(name, "socket-raw6") == 0)
                return socket(AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMPV6);
        if (strcmp(name, "socket-old-packet") == 0)
                return socket(AF_INET, 10 /* SOCK_PACKET */, 0);
        if (strcmp(name, "socket-sctp") == 0)
                return socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
        if (strcmp(name, "core-limit") == 0)
                return setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        if (strcmp(name, "socket-vsock") == 0)
                return socket(40, SOCK_STREAM, 0);
        if (strcmp(name, "socket-garbage") == 0)
                return syscall(SYS_socket, 0x100000000ull | AF_PACKET, SOCK_RAW, 0);
        if (strcmp(name, "netlink-route") == 0)
                return socket(AF_NETLINK, SOCK_RAW, 0);
        if (strcmp(name, "netlink-audit") == 0)
                return socket(AF_NETLINK, SOCK_RAW, 9);
        if (strcmp(name, "mknod") == 0)
                return mknod("/tmp/disk", S_IFBLK | 0600, 0xfe00);
        errno = EINVAL;
        return -1;
}

static unsigned counter;   /* in memory, and of init itself */
static int kept_file = -1; /* open since init began, written to at its offset */

static void do_count(void)
{
        say("%u", counter);
}

/* envd's own answer to a request; the engine sends one to what it has woken. */
static void do_http(void)
{
        char text[65536];
        size_t have = 0;
        ssize_t n;

        while (have < sizeof(text) - 1 && (n = read(1, text + have, sizeof(text) - 1 - have)) > 0) {
                have += (size_t)n;
                text[have] = '\0';
                if (strchr(text, '}'))
                        break; /* the end of its object */
        }
        say("HTTP/1.1 %s\r\n\r\n", strstr(text, "test-refuse") ? "400 Bad Request" : "204 No Content");
        (void)shutdown(1, SHUT_WR);
        while (read(1, text, sizeof(text)) > 0)
                ;
}

static void do_append(const char *text) /* to a file that is open all the time */
{
        say_result(write(kept_file, text, strlen(text)));
}

static void do_sleeper(void) /* a process that stays, with a listener of its own on port 4000 */
{
        int ln, fd;

        (void)close_range(3, ~0u, 0); /* the connection is 1 as well; the rest was init's */
        ln = listen_on(4000);
        say("%d", getpid());
        (void)close(1);
        for (;;) {
                fd = accept(ln, NULL, NULL);
                if (fd >= 0)
                        (void)dprintf(fd, "still here");
                (void)close(fd);
        }
}

/* "PORT PATH": a process that stays, has the file open and has taken its name away; who connects to the port gets what is in
 * it. */
static void do_orphan(char *rest)
{
        unsigned port = (unsigned)strtoul(rest, &rest, 10);
        int file, ln;
        char text[256];
        ssize_t n;

        (void)close_range(3, ~0u, 0);
        file = open(rest + 1, O_RDONLY | O_CLOEXEC);
        ln = listen_on((uint16_t)port);
        say_result(file < 0 ? -1 : unlink(rest + 1));
        (void)close(1);
        for (;;) {
                int fd = accept(ln, NULL, NULL);

                n = pread(file, text, sizeof(text), 0);
                (void)dprintf(fd, "%.*s", n > 0 ? (int)n : 0, text);
                (void)close(fd);
        }
}

static void do_vfork(const char *path) /* a process whose child has its memory, until that file is there */
{
        pid_t pid;

        (void)close_range(3, ~0u, 0);
        pid = (pid_t)syscall(SYS_clone, CLONE_VM | CLONE_VFORK | CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
        if (pid == 0) {
                say_result(0); /* now the parent waits */
                (void)close(1);
                while (access(path, F_OK) < 0)
                        (void)usleep(1000);
                _exit(0);
        }
        for (;;)
                (void)pause();
}

static void do_hold(const char *mib) /* a process that stays, with that much memory */
{
        size_t n = (size_t)strtoul(mib, NULL, 10) << 20;
        char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (p != MAP_FAILED)
                memset(p, 7, n);
        (void)close_range(3, ~0u, 0);
        say_result(p == MAP_FAILED ? -1 : 0);
        (void)close(1);
        for (;;)
                (void)pause();
}

static void do_lock(const char *path) /* a process that stays, with a lock on the file */
{
        int fd = open(path, O_RDONLY | O_CLOEXEC), r = fd < 0 ? -1 : flock(fd, LOCK_EX | LOCK_NB);

        say_result(r);
        if (r < 0)
                _exit(1);
        (void)dup3(fd, 0, 0);
        (void)close_range(3, ~0u, 0);
        (void)close(1);
        for (;;)
                (void)pause();
}

static void do_zeros(const char *mib) /* a process that stays, with that much memory written to, and nothing in it */
{
        size_t n = (size_t)strtoul(mib, NULL, 10) << 20;
        volatile char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        for (size_t i = 0; p != MAP_FAILED && i < n; i += 4096)
                p[i] = 0;
        (void)close_range(3, ~0u, 0);
        say_result(p == MAP_FAILED ? -1 : 0);
        (void)close(1);
        for (;;)
                (void)pause();
}

/* A process that stays, and reads a file of that size over and over, a little at a time: where less memory is allowed, it
 * has to wait for some again and again, though never for long. */
static void do_thrash(const char *mib)
{
        unsigned count = (unsigned)strtoul(mib, NULL, 10);
        int fd = open("/tmp/thrash", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        static char piece[1u << 20];

        for (unsigned i = 0; i < count; i++) {
                (void)!write(fd, piece, sizeof(piece));
                (void)fsync(fd);
                (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        }
        (void)dup3(fd, 0, 0);
        (void)close_range(3, ~0u, 0);
        say_result(fd);
        (void)close(1);
        for (unsigned i = 0;; i = (i + 1) % count) {
                if (pread(0, piece, sizeof(piece), (off_t)i << 20) != sizeof(piece))
                        _exit(1);
                (void)usleep(10000);
        }
}

static void do_ticker(const char *path) /* a process that stays, and writes a byte whenever it can */
{
        int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

        (void)dup3(fd, 0, 0);
        (void)close_range(3, ~0u, 0);
        say_result(fd);
        (void)close(1);
        while (write(0, ".", 1) == 1)
                (void)usleep(50);
        _exit(1);
}

static void do_link(char *rest) /* "OLD NEW" */
{
        const char *old = strsep(&rest, " ");

        say_result(link(old, rest));
}

static void do_queue(void) /* a message queue that stays until it is taken away: no dump can hold one */
{
        say_result(mq_open("/queue", O_CREAT | O_RDWR, 0600, NULL));
}

static void run_command(char *line)
{
        char *rest = line, *name = strsep(&rest, " ");

        rest = rest ? rest : name + strlen(name);
        if (strcmp(name, "read") == 0)
                do_read(rest);
        else if (strcmp(name, "write") == 0)
                do_write(rest);
        else if (strcmp(name, "list") == 0)
                do_list(rest);
        else if (strcmp(name, "stat") == 0)
                do_stat(rest);
        else if (strcmp(name, "connect") == 0)
                do_connect(rest);
        else if (strcmp(name, "hog") == 0)
                do_hog(rest);
        else if (strcmp(name, "forks") == 0)
                do_forks(rest);
        else if (strcmp(name, "inotify") == 0)
                do_inotify(rest);
        else if (strcmp(name, "ptys") == 0)
                do_ptys(rest);
        else if (strcmp(name, "ping") == 0)
                do_ping(rest);
        else if (strcmp(name, "stuff") == 0)
                do_stuff(rest);
        else if (strcmp(name, "datagrams") == 0)
                do_datagrams(rest);
        else if (strcmp(name, "listen6") == 0)
                do_listen6(rest);
        else if (strcmp(name, "lock") == 0)
                do_lock(rest);
        else if (strcmp(name, "zeros") == 0)
                do_zeros(rest);
        else if (strcmp(name, "thrash") == 0)
                do_thrash(rest);
        else if (strcmp(name, "ticker") == 0)
                do_ticker(rest);
        else if (strcmp(name, "count") == 0)
                do_count();
        else if (strcmp(name, "append") == 0)
                do_append(rest);
        else if (strcmp(name, "POST") == 0)
                do_http();
        else if (strcmp(name, "hostname") == 0)
                do_read("/proc/sys/kernel/hostname");
        else if (strcmp(name, "sleeper") == 0)
                do_sleeper();
        else if (strcmp(name, "orphan") == 0)
                do_orphan(rest);
        else if (strcmp(name, "vfork") == 0)
                do_vfork(rest);
        else if (strcmp(name, "link") == 0)
                do_link(rest);
        else if (strcmp(name, "queue") == 0)
                do_queue();
        else if (strcmp(name, "unqueue") == 0)
                say_result(mq_unlink("/queue"));
        else if (strcmp(name, "hold") == 0)
                do_hold(rest);
        else if (strcmp(name, "exit") == 0)
                say_result(kill(1, SIGUSR1));
        else if (strcmp(name, "hide") == 0)
                say_result(kill(1, SIGUSR2));
        else if (strcmp(name, "try") == 0)
                say_result(try_syscall(rest));
        else if (strcmp(name, "kill") == 0)
                say_result(kill((pid_t)strtol(rest, NULL, 10), SIGKILL));
        else
                say("what?");
}

static void serve(int fd)
{
        char line[4096];
        size_t have = 0;

        if (fork() != 0)
                return;
        (void)setpgid(0, 0);
        while (have < sizeof(line) - 1 && read(fd, line + have, 1) == 1 && line[have] != '\n')
                have++;
        line[have] = '\0';
        (void)dup2(fd, 1);
        run_command(line);
        _exit(0);
}

static void on_exit_asked(int signo)
{
        (void)signo;
        _exit(0);
}

/* For a moment nobody may look at it, as when it has lent its memory to a child that became another user. */
static void on_hide_asked(int signo)
{
        const struct itimerval moment = {.it_value.tv_usec = 40000};

        (void)prctl(PR_SET_DUMPABLE, signo == SIGALRM);
        if (signo == SIGUSR2)
                (void)setitimer(ITIMER_REAL, &moment, NULL);
}

int main(void)
{
        int ln = listen_on(ENVD_PORT), mounts[ENVD_INIT_FDS_MAX] = {-1, -1};
        char *init;

        (void)signal(SIGCHLD, SIG_IGN);
        (void)signal(SIGUSR1, on_exit_asked);
        (void)signal(SIGUSR2, on_hide_asked);
        (void)signal(SIGALRM, on_hide_asked);
        if (write(ENVD_CELL_FD, (const char[]){ENVD_CELL_WAITING}, 1) != 1)
                _exit(1);
        init = receive_init(mounts);
        if (strstr(init, "test-die"))
                _exit(3);
        if (strstr(init, "test-fail")) {
                errno = EPROTO;
                refuse("asked to fail");
        }
        enter_root(mounts);
        if (sethostname("cell", 4) < 0)
                refuse("host name");
        if (strstr(init, "test-hang"))
                (void)pause();
        kept_file = open("/tmp/kept", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        if (write(ENVD_CELL_FD, (const char[]){ENVD_CELL_READY}, 1) != 1)
                _exit(1);
        (void)close(ENVD_CELL_FD);
        for (;;) {
                int fd = accept(ln, NULL, NULL);

                if (fd < 0)
                        continue;
                counter++;
                serve(fd);
                (void)close(fd);
        }
}
