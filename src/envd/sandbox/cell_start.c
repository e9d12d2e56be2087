#include "envd/sandbox/cell_start.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/err.h"
#include "envd/rpc/settings.h"
#include "envd/sandbox/identity_files.h"
#include "model/envd_init.h"
#include "sys/proc.h"
#include "sys/scm.h"

int cell_start_open_stdio(void)
{
        int fd;

        do {
                fd = open("/dev/null", O_RDWR);
        } while (fd >= 0 && fd < 2);
        if (fd > 2)
                (void)close(fd);
        return fd < 0 ? -errno : 0;
}

struct init_mounts { /* detached; they come with the first byte */
        int root;
        int boot_id; /* -1: none */
};

/* What hangs in the cell's root goes along to the sandbox's.  Opened while the cell waits, and closed when the sandbox has been
 * told ready: nobody waits for that. */
static const char *const places[] = {"/proc", "/sys", "/dev"};
static struct {
        int places[ARRAY_LEN(places)];
        struct init_mounts mounts;
} held = {{-1, -1, -1}, {-1, -1}};

static void open_places(void)
{
        for (size_t i = 0; i < ARRAY_LEN(places); i++)
                held.places[i] = open(places[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static void close_held(void)
{
        for (size_t i = 0; i < ARRAY_LEN(places); i++)
                close_fd(&held.places[i]);
        close_fd(&held.mounts.root);
        close_fd(&held.mounts.boot_id);
}

/* One recvmsg of at most n bytes; fds that come with them are kept. */
static ssize_t cell_receive(void *p, size_t n, struct init_mounts *m)
{
        int fds[ENVD_INIT_FDS_MAX];
        size_t nfds = 0;
        ssize_t got;

        do {
                got = scm_recv(ENVD_CELL_FD, p, n, fds, ENVD_INIT_FDS_MAX, &nfds);
        } while (got == -EINTR);
        if (nfds > 0 && m->root < 0)
                m->root = TAKE_FD(fds[0]);
        if (nfds > 1 && m->boot_id < 0)
                m->boot_id = TAKE_FD(fds[1]);
        while (nfds > 0)
                close_fd(&fds[--nfds]); /* those that were not expected */
        return got;
}

/* All n bytes: 1; 0 end of file before; negative errno. */
static int cell_receive_all(void *p, size_t n, struct init_mounts *m)
{
        for (size_t have = 0; have < n;) {
                ssize_t got = cell_receive((char *)p + have, n - have, m);

                if (got <= 0)
                        return (int)got;
                have += (size_t)got;
        }
        return 1;
}

/* The message: 1 with the object and the mounts; 0 the engine is gone. */
static int cell_receive_init(json_t **ret, struct init_mounts *m, struct err *err)
{
        AUTO_FREE char *text = NULL;
        json_error_t why;
        uint32_t len;
        int r;

        r = cell_receive_all(&len, sizeof(len), m);
        if (r <= 0)
                return r < 0 ? err_sys(err, r, "receive the init message") : 0;
        len = ntohl(len);
        if (len > ENVD_INIT_MAX)
                return err_set(err, ERR_INVALID, "init message of %u bytes", len);
        text = malloc(len + 1u);
        if (!text)
                return err_sys(err, -ENOMEM, "init message");
        r = cell_receive_all(text, len, m);
        if (r <= 0)
                return r < 0 ? err_sys(err, r, "receive the init message") : 0;
        if (m->root < 0)
                return err_set(err, ERR_INVALID, "init message without a root");
        *ret = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
        return *ret ? 1 : err_set(err, ERR_INVALID, "init message: %s", why.text);
}

/* ------------------------------------------------------------- the root */

static int cell_hang(int mount, const char *at)
{
        return syscall(SYS_move_mount, mount, "", AT_FDCWD, at, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno : 0;
}

static int enter_root(int root, struct err *err)
{
        int r = cell_hang(root, "/");

        if (r < 0)
                return err_sys(err, r, "move the root in place");
        if (fchdir(root) < 0 || chroot(".") < 0)
                return err_sys(err, -errno, "enter the root");
        return 0;
}

/* The layers may have no such directory. */
static int cell_hang_dir(int mount, const char *at)
{
        int r = cell_hang(mount, at);

        if (r == -ENOENT && mkdir(at, 0755) == 0)
                r = cell_hang(mount, at);
        return r;
}

static int enter_root_with_mounts(const struct init_mounts *m, struct err *err)
{
        int r = enter_root(m->root, err);

        for (size_t i = 0; i < ARRAY_LEN(places) && r == 0; i++) {
                r = held.places[i] < 0 ? -ENOENT : cell_hang_dir(held.places[i], places[i]);
                if (r < 0)
                        (void)err_sys(err, r, "hang up %s", places[i]);
        }
        if (r == 0 && m->boot_id >= 0)
                (void)cell_hang(m->boot_id, ENVD_BOOT_ID); /* without it: the host's, which is no secret */
        return r;
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

static int cell_become_sandbox(struct settings *s, const json_t *init, const struct init_mounts *m, struct err *err)
{
        AUTO_FAULT struct fault f = {0};

        if (settings_apply(s, init, &f) < 0)
                return err_set(err, ERR_INVALID, "init message: %s", fault_text(&f));
        if (!s->sandbox_id)
                return err_set(err, ERR_INVALID, "init message: field sandboxID is missing");
        if (enter_root_with_mounts(m, err) < 0 || set_hostname(init, s, err) < 0)
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
        json_t *init = NULL;
        int r;

        open_places();
        cell_tell_engine(&waiting, 1);
        r = cell_receive_init(&init, &held.mounts, err);
        if (r > 0)
                r = cell_become_sandbox(s, init, &held.mounts, err);
        if (r == 0 && !init)
                return 0;
        json_decref(init);
        return r < 0 ? r : 1;
}

void cell_start_tell_ready(void)
{
        static const char ready = ENVD_CELL_READY;

        cell_tell_engine(&ready, 1);
        (void)close(ENVD_CELL_FD);
        close_held();
}
