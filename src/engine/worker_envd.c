#include "engine/worker_envd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"
#include "engine/devfs.h"
#include "sys/fs.h"
#include "sys/mnt.h"
#include "wire/sha256.h"

#define ANSWER_S 20u
#define HEAD_MAX 1024u

/* ------------------------------------------------------------- the binary */

int worker_envd_hash_fd(int fd, char out[RECORD_HASH_MAX])
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

int worker_envd_hash(int proc_dir, pid_t pid, char out[RECORD_HASH_MAX], struct err *err)
{
        AUTO_CLOSE int fd = open_running(proc_dir, pid);
        int r = fd < 0 ? fd : worker_envd_hash_fd(fd, out);

        return r < 0 ? err_sys(err, r, "read the envd of process %d", pid) : 0;
}

static int copy_to(int from, int dir, const char *name)
{
        AUTO_CLOSE int to = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0500);
        struct stat st;
        off_t at = 0;

        if (to < 0 || fstat(from, &st) < 0)
                return -errno;
        while (at < st.st_size)
                if (sendfile(to, from, &at, (size_t)(st.st_size - at)) <= 0)
                        return errno ? -errno : -EIO;
        return fsync(to) < 0 ? -errno : 0;
}

int worker_envd_keep(const struct worker_conf *c, const char *hash, pid_t pid, struct err *err)
{
        AUTO_CLOSE int from = -1;
        char name[32] = ".new-";
        int r;

        if (faccessat(c->envd_dir, hash, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
                return 0;
        from = open_running(c->proc_dir, pid);
        random_id(name + strlen(name), 12);
        r = from < 0 ? from : copy_to(from, c->envd_dir, name);
        if (r == 0 && (renameat(c->envd_dir, name, c->envd_dir, hash) < 0 || fsync(c->envd_dir) < 0))
                r = -errno;
        if (r < 0)
                (void)unlinkat(c->envd_dir, name, 0);
        return r < 0 ? err_sys(err, r, "keep a copy of envd") : 0;
}

int worker_envd_dev(const struct worker_conf *c, const char *hash, int *ret_mount, struct err *err)
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
        return devfs_make(binary, ret_mount, err);
}

/* ------------------------------------------------------------- the word */

static int connect_inside(int netns, struct err *err)
{
        struct sockaddr_in to = {
                .sin_family = AF_INET, .sin_port = htons(ENVD_PORT), .sin_addr = {htonl(INADDR_LOOPBACK)}};
        const struct timeval limit = {.tv_sec = ANSWER_S};
        AUTO_CLOSE int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), sock = -1;

        if (home < 0 || setns(netns, CLONE_NEWNET) < 0)
                return err_sys(err, -errno, "enter network namespace");
        sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (setns(home, CLONE_NEWNET) < 0)
                return err_sys(err, -errno, "leave network namespace");
        if (sock < 0 || setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) < 0 ||
            setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) < 0 ||
            connect(sock, (struct sockaddr *)(void *)&to, sizeof(to)) < 0)
                return err_sys(err, -errno, "reach envd");
        return TAKE_FD(sock);
}

static int send_request(int sock, const char *token, const json_t *init, struct err *err)
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
                ssize_t n = send(sock, buf_at(&b), b.len, MSG_NOSIGNAL);

                if (n < 0)
                        r = -errno;
                else
                        buf_consume(&b, (size_t)n);
        }
        return r < 0 ? err_sys(err, r, "speak to envd") : 0;
}

/* Only its status counts, "HTTP/1.1 204". */
static int read_status(int sock, struct err *err)
{
        char head[HEAD_MAX];
        size_t have = 0;
        uint32_t status;

        while (have < 12) {
                ssize_t n = recv(sock, head + have, sizeof(head) - have, 0);

                if (n == 0)
                        return err_set(err, ERR_INTERNAL, "envd hung up");
                if (n < 0)
                        return err_sys(err, -errno, "hear from envd");
                have += (size_t)n;
        }
        if (memcmp(head, "HTTP/1.", 7) != 0 || parse_u32((struct str){head + 9, 3}, 100, 599, &status) < 0)
                return err_set(err, ERR_INTERNAL, "envd speaks another language");
        return status / 100 == 2 ? 0 : err_set(err, ERR_INTERNAL, "envd refused to go on: status %u", status);
}

int worker_envd_init(int netns, const char *token, const json_t *init, struct err *err)
{
        AUTO_CLOSE int sock = connect_inside(netns, err);
        int r = sock < 0 ? sock : send_request(sock, token, init, err);

        return r < 0 ? r : read_status(sock, err);
}
