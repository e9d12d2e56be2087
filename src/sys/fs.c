#include "sys/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"

#define REMOVE_DEPTH_MAX 48
#define OVERWRITE_MAX (64 << 10)

int sys_open_beneath(int dir, const char *path, int flags, mode_t mode)
{
        struct open_how how = {
                .flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
                .mode = mode,
                .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
        };
        long fd = syscall(SYS_openat2, dir, path, &how, sizeof(how));

        return fd < 0 ? -errno : (int)fd;
}

int sys_open_dir(int dir, const char *path)
{
        return sys_open_beneath(dir, path, O_RDONLY | O_DIRECTORY, 0);
}

int sys_make_dir(int dir, const char *name, mode_t mode)
{
        if (mkdirat(dir, name, mode) < 0)
                return errno == EEXIST ? 0 : -errno;
        return fchmodat(dir, name, mode, 0) < 0 ? -errno : 0;
}

int sys_spread_dirs(int dir)
{
        int flags;

        if (ioctl(dir, FS_IOC_GETFLAGS, &flags) < 0)
                return -errno;
        flags |= FS_TOPDIR_FL;
        return ioctl(dir, FS_IOC_SETFLAGS, &flags) < 0 ? -errno : 0;
}

int sys_write_at(int dir, const char *path, const char *text)
{
        AUTO_CLOSE int fd = openat(dir, path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
        size_t len = strlen(text);
        ssize_t n;

        if (fd < 0)
                return -errno;
        n = write(fd, text, len);
        if (n < 0)
                return -errno;
        return (size_t)n == len ? 0 : -EIO;
}

ssize_t sys_read_at(int dir, const char *path, char *out, size_t size)
{
        AUTO_CLOSE int fd = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        size_t have = 0;

        if (fd < 0)
                return -errno;
        for (;;) {
                ssize_t n = read(fd, out + have, size - have);

                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                have += (size_t)n;
                if (have == size)
                        return -E2BIG;
        }
        out[have] = '\0';
        return (ssize_t)have;
}

static int write_all(int fd, const char *p, size_t n)
{
        while (n > 0) {
                ssize_t w = write(fd, p, n);

                if (w < 0)
                        return -errno;
                p += w;
                n -= (size_t)w;
        }
        return 0;
}

static int replace_at(int dir, const char *name, const void *p, size_t n, mode_t mode, bool is_durable)
{
        AUTO_CLOSE int fd = -1;
        char tmp[256];
        int r;

        r = snprintf(tmp, sizeof(tmp), "%s.new", name);
        if (r < 0 || (size_t)r >= sizeof(tmp))
                return -ENAMETOOLONG;
        fd = openat(dir, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
        if (fd < 0)
                return -errno;
        r = fchmod(fd, mode) < 0 ? -errno : write_all(fd, p, n);
        if (r == 0 && is_durable && fsync(fd) < 0)
                r = -errno;
        if (r == 0 && renameat(dir, tmp, dir, name) < 0)
                r = -errno;
        if (r < 0)
                (void)unlinkat(dir, tmp, 0);
        return r;
}

bool sys_is_full(int r)
{
        return r == -ENOSPC || r == -EDQUOT;
}

int sys_overwrite_at(int dir, const char *name, const void *p, size_t n, char pad)
{
        AUTO_CLOSE int fd = openat(dir, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
        AUTO_FREE char *whole = NULL;
        struct stat st;
        size_t size;
        int r;

        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode) || st.st_size > OVERWRITE_MAX)
                return -EINVAL;
        size = (size_t)st.st_size > n ? (size_t)st.st_size : n;
        whole = malloc(size + 1);
        if (!whole)
                return -ENOMEM;
        memset(whole, pad, size);
        memcpy(whole, p, n);
        r = write_all(fd, whole, size);
        return r == 0 && fdatasync(fd) < 0 ? -errno : r;
}

int sys_replace_at(int dir, const char *name, const void *p, size_t n, mode_t mode)
{
        return replace_at(dir, name, p, n, mode, false);
}

int sys_replace_durably_at(int dir, const char *name, const void *p, size_t n, mode_t mode)
{
        int r = replace_at(dir, name, p, n, mode, true);

        if (r == 0 && fsync(dir) < 0)
                r = -errno;
        return r;
}

static bool is_dot(const char *name)
{
        return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

void sys_list_end_p(DIR **d)
{
        if (*d)
                (void)closedir(*d);
}

/* Takes fd. */
static DIR *list_fd(int fd)
{
        DIR *d = fd < 0 ? NULL : fdopendir(fd);
        int e = errno;

        if (fd >= 0 && !d) {
                (void)close(fd);
                errno = e;
        }
        return d;
}

DIR *sys_list(int dir)
{
        return list_fd(openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

struct dirent *sys_list_next(DIR *d)
{
        struct dirent *e;

        do {
                e = readdir(d);
        } while (e && is_dot(e->d_name));
        return e;
}

/* Too deep to go on from here: hang it beside the tree's root, where the caller's loop finds it. */
static int move_up(int top, int dir, const char *name)
{
        char up[8 + 16 + 1] = "deeper-";

        random_id(up + 7, 16);
        return renameat(dir, name, top, up) < 0 ? -errno : 0;
}

static int remove_below(int top, int dir, const char *name, unsigned depth)
{
        int fd = sys_open_beneath(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0), r;
        AUTO_DIR DIR *d = list_fd(fd);
        struct dirent *e;

        if (!d)
                return fd < 0 ? fd : -errno;
        while ((e = sys_list_next(d))) {
                if (e->d_type != DT_DIR && unlinkat(fd, e->d_name, 0) == 0)
                        continue;
                if (e->d_type != DT_DIR && errno != EISDIR)
                        return -errno;
                if (unlinkat(fd, e->d_name, AT_REMOVEDIR) == 0)
                        continue;
                r = depth >= REMOVE_DEPTH_MAX ? move_up(top, fd, e->d_name)
                                              : remove_below(top, fd, e->d_name, depth + 1);
                if (r < 0)
                        return r;
        }
        return unlinkat(dir, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

static int remove_moved_up(int top)
{
        bool found;

        do {
                AUTO_DIR DIR *d = sys_list(top);
                struct dirent *e;
                int r;

                if (!d)
                        return -errno;
                found = false;
                while ((e = sys_list_next(d))) {
                        if (strncmp(e->d_name, "deeper-", 7) != 0)
                                continue;
                        found = true;
                        r = remove_below(top, top, e->d_name, 0);
                        if (r < 0)
                                return r;
                }
        } while (found);
        return 0;
}

int sys_remove_tree(int dir, const char *name)
{
        int r;

        if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
                return 0;
        r = remove_below(dir, dir, name, 0);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        return remove_moved_up(dir);
}
