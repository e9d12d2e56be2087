#include "engine/checkpoint/envd_copies.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"
#include "engine/host/devices.h"
#include "sys/fs.h"
#include "sys/mnt.h"
#include "wire/sha256.h"

#define ANSWER_S 20u
#define HEAD_MAX 1024u
#define BINARY_BYTES_MAX (64 << 20)

/* ------------------------------------------------------------- the binary */

int envd_copies_hash_fd(int fd, char out[RECORD_HASH_MAX])
{
        static uint8_t piece[65536];
        uint8_t digest[SHA256_LEN];
        struct sha256 sum;
        off_t at = 0;
        ssize_t n;

        sha256_init(&sum);
        while ((n = pread(fd, piece, sizeof(piece), at)) > 0) {
                sha256_add(&sum, piece, (size_t)n);
                at += n;
                if (at > BINARY_BYTES_MAX) /* what a sandbox put in its place may have any size */
                        return -EFBIG;
        }
        if (n < 0)
                return -errno;
        sha256_end(&sum, digest);
        hex_encode(digest, sizeof(digest), out);
        return 0;
}

static int open_running(int proc_dir, pid_t pid)
{
        char path[32];
        int fd;

        (void)snprintf(path, sizeof(path), "%d/exe", pid);
        fd = openat(proc_dir, path, O_RDONLY | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

int envd_copies_hash(int proc_dir, pid_t pid, char out[RECORD_HASH_MAX], struct err *err)
{
        AUTO_CLOSE int fd = open_running(proc_dir, pid);
        int r = fd < 0 ? fd : envd_copies_hash_fd(fd, out);

        return r < 0 ? err_sys(err, r, "read the envd of process %d", pid) : 0;
}

static int copy_to(int from, int dir, const char *name, char out[RECORD_HASH_MAX])
{
        AUTO_CLOSE int to = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0500);
        struct stat st;
        off_t at = 0;

        if (to < 0 || fstat(from, &st) < 0)
                return -errno;
        if (st.st_size > BINARY_BYTES_MAX)
                return -EFBIG;
        while (at < st.st_size) {
                ssize_t n = sendfile(to, from, &at, (size_t)(st.st_size - at));

                if (n <= 0)
                        return n < 0 ? -errno : -EIO;
        }
        return fsync(to) < 0 ? -errno : envd_copies_hash_fd(to, out);
}

/* Others will be woken with this copy, so the program that a sandbox runs now is not believed to be its envd: root inside
 * can have its init start another. */
int envd_copies_keep(const struct job_conf *c, const char *hash, pid_t pid, struct err *err)
{
        AUTO_CLOSE int from = -1;
        char name[32] = ".new-", is[RECORD_HASH_MAX] = "";
        int r;

        if (faccessat(c->envd_dir, hash, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
                return 0;
        from = strcmp(hash, c->envd) == 0 ? fcntl(c->envd_binary, F_DUPFD_CLOEXEC, 0) : open_running(c->proc_dir, pid);
        random_id(name + strlen(name), 12);
        r = from < 0 ? from : copy_to(from, c->envd_dir, name, is);
        if (r == 0 && strcmp(is, hash) != 0) {
                (void)unlinkat(c->envd_dir, name, 0);
                return err_set(err, ERR_CONFLICT,
                               "pid 1 is not the envd it was started with; pause with memory:false keeps the files");
        }
        if (r == 0 && (renameat(c->envd_dir, name, c->envd_dir, hash) < 0 || fsync(c->envd_dir) < 0))
                r = -errno;
        if (r < 0)
                (void)unlinkat(c->envd_dir, name, 0);
        return r < 0 ? err_sys(err, r, "keep a copy of envd") : 0;
}

int envd_copies_dev(const struct job_conf *c, const char *hash, int *ret_mount, struct err *err)
{
        AUTO_CLOSE int binary = -1;
        int r;

        if (strcmp(hash, c->envd) == 0 && c->dev >= 0) {
                r = sys_clone_tree(c->dev, "");
                if (r >= 0)
                        *ret_mount = r;
                return r < 0 ? err_sys(err, r, "clone /dev") : 0;
        }
        binary = sys_open_beneath(c->envd_dir, hash, O_RDONLY, 0);
        if (binary < 0)
                return err_set(err, ERR_INVALID, "checkpoint damaged: its envd (%.12s) is not kept any more", hash);
        return devices_make(binary, ret_mount, err);
}

/* ------------------------------------------------------------- the word */

/* Whoever answers there is a program of the sandbox's: all of it together has one limit, however slowly it goes. */
struct talk {
        int sock;
        uint64_t until_us;
};

/* Until the socket is ready, or the time is up. */
static int await(const struct talk *t, short events)
{
        struct pollfd p = {.fd = t->sock, .events = events};
        uint64_t now;
        int n;

        do {
                now = clock_mono_us();
                n = now < t->until_us ? poll(&p, 1, (int)((t->until_us - now) / 1000 + 1)) : 0;
        } while (n < 0 && errno == EINTR);
        return n < 0 ? -errno : n == 0 ? -ETIMEDOUT : 0;
}

static int connect_inside(int netns, struct talk *t, struct err *err)
{
        struct sockaddr_in to = {
                .sin_family = AF_INET, .sin_port = htons(ENVD_PORT), .sin_addr = {htonl(INADDR_LOOPBACK)}};
        AUTO_CLOSE int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), sock = -1;
        int r, why = 0;
        socklen_t n = sizeof(why);

        if (home < 0 || setns(netns, CLONE_NEWNET) < 0)
                return err_sys(err, -errno, "enter network namespace");
        sock = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (setns(home, CLONE_NEWNET) < 0)
                return err_sys(err, -errno, "leave network namespace");
        t->sock = sock;
        r = sock < 0 || connect(sock, (struct sockaddr *)(void *)&to, sizeof(to)) < 0 ? -errno : 0;
        if (r == -EINPROGRESS)
                r = await(t, POLLOUT);
        if (r == 0 && getsockopt(sock, SOL_SOCKET, SO_ERROR, &why, &n) == 0)
                r = -why;
        return r < 0 ? err_sys(err, r, "reach envd") : TAKE_FD(sock);
}

static int send_request(const struct talk *t, const char *token, const json_t *init, struct err *err)
{
        AUTO_FREE char *body = json_dumps(init, JSON_COMPACT);
        AUTO_BUF struct buf b = BUF_INIT(2u << 20);
        int r = body ? buf_addf(&b,
                                "POST /init HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                                "Content-Length: %zu\r\nConnection: close\r\n%s%s%s\r\n%s",
                                strlen(body), token ? "X-Access-Token: " : "", token ? token : "", token ? "\r\n" : "",
                                body)
                     : -ENOMEM;

        while (r >= 0 && b.len > 0) {
                ssize_t n = send(t->sock, buf_at(&b), b.len, MSG_NOSIGNAL);

                if (n >= 0)
                        buf_consume(&b, (size_t)n);
                else
                        r = errno == EAGAIN ? await(t, POLLOUT) : -errno;
        }
        return r < 0 ? err_sys(err, r, "speak to envd") : 0;
}

/* Only its status counts, "HTTP/1.1 204". */
static int read_status(const struct talk *t, struct err *err)
{
        char head[HEAD_MAX];
        size_t have = 0;
        uint32_t status;

        while (have < 12) {
                ssize_t n = recv(t->sock, head + have, sizeof(head) - have, 0);
                int r = n >= 0 ? 0 : errno == EAGAIN ? await(t, POLLIN) : -errno;

                if (n == 0)
                        return err_set(err, ERR_INTERNAL, "envd hung up");
                if (r < 0)
                        return err_sys(err, r, "hear from envd");
                have += n > 0 ? (size_t)n : 0;
        }
        if (memcmp(head, "HTTP/1.", 7) != 0 || parse_u32((struct str){head + 9, 3}, 100, 599, &status) < 0)
                return err_set(err, ERR_INTERNAL, "envd speaks another language");
        return status / 100 == 2 ? 0 : err_set(err, ERR_INTERNAL, "envd refused to go on: status %u", status);
}

int envd_copies_init(int netns, const char *token, const json_t *init, struct err *err)
{
        struct talk t = {.sock = -1, .until_us = clock_mono_us() + ANSWER_S * 1000000u};
        AUTO_CLOSE int sock = connect_inside(netns, &t, err);
        int r = sock < 0 ? sock : send_request(&t, token, init, err);

        if (r == 0)
                r = read_status(&t, err);
        if (r == -ETIMEDOUT)
                err->kind = ERR_TIMEOUT;
        return r;
}
