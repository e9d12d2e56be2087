#include "envd/sandbox/cell_start.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "base/err.h"
#include "envd/rpc/settings.h"
#include "envd/sandbox/identity_files.h"
#include "model/envd_init.h"
#include "sys/proc.h"

int cell_start_hold_stdio(void)
{
        int fd;

        do {
                fd = open("/", O_PATH | O_CLOEXEC);
        } while (fd >= 0 && fd < 2);
        if (fd > 2)
                (void)close(fd);
        return fd < 0 ? -errno : 0;
}

/* One recvmsg of at most n bytes; an fd that comes with them goes to *fd (if there is none yet). */
static ssize_t cell_receive(void *p, size_t n, int *fd)
{
        union {
                struct cmsghdr head;
                char room[CMSG_SPACE(sizeof(int))];
        } control;
        struct iovec iov = {p, n};
        struct msghdr msg = {
                .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
        struct cmsghdr *c;
        ssize_t got;

        do {
                got = recvmsg(ENVD_CELL_FD, &msg, MSG_CMSG_CLOEXEC);
        } while (got < 0 && errno == EINTR);
        if (got < 0)
                return -errno;
        for (c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c))
                if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && *fd < 0)
                        memcpy(fd, CMSG_DATA(c), sizeof(*fd));
        return got;
}

/* All n bytes: 1; 0 end of file before; negative errno. */
static int cell_receive_all(void *p, size_t n, int *fd)
{
        for (size_t have = 0; have < n;) {
                ssize_t got = cell_receive((char *)p + have, n - have, fd);

                if (got <= 0)
                        return (int)got;
                have += (size_t)got;
        }
        return 1;
}

/* The message: 1 with the object and the root's fd; 0 the engine is gone. */
static int cell_receive_init(json_t **ret, int *ret_root, struct err *err)
{
        AUTO_FREE char *text = NULL;
        AUTO_CLOSE int root = -1;
        json_error_t why;
        uint32_t len;
        int r;

        r = cell_receive_all(&len, sizeof(len), &root);
        if (r <= 0)
                return r < 0 ? err_sys(err, r, "receive the init message") : 0;
        len = ntohl(len);
        if (len > ENVD_INIT_MAX)
                return err_set(err, ERR_INVALID, "init message of %u bytes", len);
        text = malloc(len + 1u);
        if (!text)
                return err_sys(err, -ENOMEM, "init message");
        r = cell_receive_all(text, len, &root);
        if (r <= 0)
                return r < 0 ? err_sys(err, r, "receive the init message") : 0;
        if (root < 0)
                return err_set(err, ERR_INVALID, "init message without a root");
        *ret = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
        if (!*ret)
                return err_set(err, ERR_INVALID, "init message: %s", why.text);
        *ret_root = TAKE_FD(root);
        return 1;
}

static int enter_root(int root, struct err *err)
{
        if (syscall(SYS_move_mount, root, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0)
                return err_sys(err, -errno, "move the root in place");
        if (fchdir(root) < 0 || chroot(".") < 0 || chdir("/") < 0)
                return err_sys(err, -errno, "enter the root");
        return 0;
}

static int set_hostname(const json_t *init, const struct settings *s, struct err *err)
{
        const char *name = json_string_value(json_object_get(init, "hostname"));

        if (!name || !name[0])
                name = s->sandbox_id;
        if (strlen(name) > HOSTNAME_MAX)
                return err_set(err, ERR_INVALID, "hostname of more than %d characters", HOSTNAME_MAX);
        if (sethostname(name, strlen(name)) < 0)
                return err_sys(err, -errno, "set the hostname");
        return 0;
}

static int open_stdio(struct err *err)
{
        AUTO_CLOSE int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

        if (fd < 0 || dup2(fd, 0) < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
                return err_sys(err, -errno, "open /dev/null");
        return 0;
}

/* CAP_SYS_ADMIN was needed to enter the root.  Root of the sandbox never gets it back: the bounding set has lost it
 * too. */
static int drop_admin(struct err *err)
{
        const uint64_t admin = 1ull << CAP_SYS_ADMIN;
        int r = sys_drop_bounding(admin);

        if (r == 0)
                r = sys_keep_only_caps(~admin);
        return r < 0 ? err_sys(err, r, "drop capabilities") : 0;
}

static int cell_become_sandbox(struct settings *s, const json_t *init, int root, struct err *err)
{
        AUTO_FAULT struct fault f = {0};

        if (settings_apply(s, init, &f) < 0)
                return err_set(err, ERR_INVALID, "init message: %s", fault_text(&f));
        if (!s->sandbox_id)
                return err_set(err, ERR_INVALID, "init message: field sandboxID is missing");
        if (enter_root(root, err) < 0 || open_stdio(err) < 0 || set_hostname(init, s, err) < 0)
                return -1;
        return drop_admin(err);
}

static void cell_tell_engine(const char *p, size_t n)
{
        (void)!send(ENVD_CELL_FD, p, n, MSG_NOSIGNAL); /* if the engine is gone, the next read shows it */
}

void cell_start_tell_failed(const struct err *err)
{
        char text[1 + sizeof(err->msg)];
        int n = snprintf(text, sizeof(text), "%c%s", ENVD_CELL_FAILED, err->msg);

        cell_tell_engine(text, (size_t)n);
}

int cell_start_enter_sandbox(struct settings *s, struct err *err)
{
        static const char waiting = ENVD_CELL_WAITING;
        AUTO_CLOSE int root = -1;
        json_t *init = NULL;
        int r;

        cell_tell_engine(&waiting, 1);
        r = cell_receive_init(&init, &root, err);
        if (r == 0)
                return 0;
        if (r > 0)
                r = cell_become_sandbox(s, init, root, err);
        json_decref(init);
        return r < 0 ? r : 1;
}

void cell_start_tell_ready(void)
{
        static const char ready = ENVD_CELL_READY;

        cell_tell_engine(&ready, 1);
        (void)close(ENVD_CELL_FD);
}
