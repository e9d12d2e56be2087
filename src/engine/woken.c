#include "engine/woken.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "engine/helper.h"
#include "engine/instance.h"
#include "engine/worker.h"

#define NAME "woken"
#define BLOCK 512u /* written whole or not at all */
#define SIZE ((off_t)SLOTS_MAX * BLOCK)

static int fill(int fd)
{
        static const char zeros[64 * BLOCK];

        for (off_t at = 0; at < SIZE; at += (off_t)sizeof(zeros))
                if (pwrite(fd, zeros, sizeof(zeros), at) != (ssize_t)sizeof(zeros))
                        return errno ? -errno : -EIO;
        return fsync(fd) < 0 ? -errno : 0;
}

/* Blocks that were never written would have to be allocated in the journal. */
static int make(int data_dir)
{
        AUTO_CLOSE int fd = openat(data_dir, NAME, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        int r = fd < 0 ? -errno : fill(fd);

        if (r == 0 && fsync(data_dir) < 0)
                r = -errno;
        if (r < 0)
                (void)unlinkat(data_dir, NAME, 0); /* others need the room more */
        return r;
}

int woken_open(int data_dir, int *ret, struct err *err)
{
        struct stat st = {0};
        int fd, r = 0;

        if (fstatat(data_dir, NAME, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_size < SIZE)
                r = make(data_dir);
        if (r < 0)
                return err_sys(err, r, "make " NAME);
        fd = openat(data_dir, NAME, O_RDWR | O_DSYNC | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return err_sys(err, -errno, "open " NAME);
        *ret = fd;
        return 0;
}

int woken_mark(int fd, unsigned slot, const char *checkpoint, const char *boot_id, struct err *err)
{
        char block[BLOCK] = "";
        ssize_t n;

        if (checkpoint[0])
                (void)snprintf(block, sizeof(block), "%s %s\n", checkpoint, boot_id);
        n = pwrite(fd, block, sizeof(block), (off_t)slot * BLOCK);
        return n == (ssize_t)sizeof(block) ? 0 : err_sys(err, n < 0 ? -errno : -EIO, "write " NAME);
}

int woken_flush(int dir, struct err *err)
{
        return fsync(dir) < 0 ? err_sys(err, -errno, "flush its directory") : 0;
}

static bool is_of(const char block[BLOCK], const char *checkpoint, const char *boot_id)
{
        size_t n = strlen(checkpoint);

        return memcmp(block, checkpoint, n) == 0 && block[n] == ' ' &&
               strncmp(block + n + 1, boot_id, strlen(boot_id)) != 0;
}

bool woken_before(int fd, const char *checkpoint, const char *boot_id)
{
        char blocks[64 * BLOCK];
        ssize_t n;

        for (off_t at = 0; checkpoint[0] && (n = pread(fd, blocks, sizeof(blocks), at)) > 0; at += n)
                for (ssize_t i = 0; i + (ssize_t)BLOCK <= n; i += BLOCK)
                        if (is_of(blocks + i, checkpoint, boot_id))
                                return true;
        return false;
}

/* ------------------------------------------------------------- for those who must not block */

static _Noreturn void run_marker(const struct worker_conf *c, int sock)
{
        struct woken_order o;

        while (recv(sock, &o, sizeof(o), 0) == (ssize_t)sizeof(o)) {
                struct err err = {0};

                o.result = woken_mark(c->woken, o.slot, o.checkpoint, c->boot_id, &err);
                worker_point(c, "roused");
                if (send(sock, &o, sizeof(o), MSG_NOSIGNAL) < 0)
                        break;
        }
        _exit(0);
}

int woken_fork(const struct worker_conf *c, int *ret_sock, struct err *err)
{
        const int keep[] = {c->woken, c->data_dir};
        int sock = -1;
        pid_t pid = helper_fork("sg-marker", keep, ARRAY_LEN(keep), &sock);

        if (pid < 0)
                return err_sys(err, pid, "fork marker");
        if (pid == 0)
                run_marker(c, sock);
        *ret_sock = sock;
        return 0;
}
