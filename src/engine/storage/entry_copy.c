#include "engine/storage/entry_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"

/* ------------------------------------------------------------- data */

static int copy_range(int from, int to, off_t at, off_t end)
{
        off_t to_at = at;

        while (at < end) {
                ssize_t n = copy_file_range(from, &at, to, &to_at, (size_t)(end - at), 0);

                if (n <= 0)
                        return n < 0 ? -errno : -EIO;
        }
        return 0;
}

int entry_copy_data(int from, int to, off_t size)
{
        off_t data, hole = 0;
        int r = 0;

        if (ioctl(to, FICLONE, from) == 0)
                return 0;
        if (ftruncate(to, size) < 0)
                return -errno;
        while (r == 0 && (data = lseek(from, hole, SEEK_DATA)) >= 0) {
                hole = lseek(from, data, SEEK_HOLE);
                if (hole < 0)
                        return -errno;
                r = copy_range(from, to, data, hole);
        }
        return r < 0 ? r : errno == ENXIO ? 0 : -errno; /* ENXIO: no more data */
}

/* ------------------------------------------------------------- attributes */

#define FD_PATH_MAX 32 /* calls that do not take an O_PATH fd take its path in /proc */

static void name_fd(int fd, char out[FD_PATH_MAX])
{
        (void)snprintf(out, FD_PATH_MAX, "/proc/self/fd/%d", fd);
}

static bool has_prefix(const char *s, const char *prefix)
{
        return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* A security module may refuse a label: then it has set its own. */
static bool may_refuse(const char *name, int r)
{
        return has_prefix(name, "security.") && strcmp(name, "security.capability") != 0 &&
               (r == -EPERM || r == -EACCES || r == -EOPNOTSUPP);
}

static int copy_xattr(const char *from, const char *to, const char *name, char *value)
{
        ssize_t n = getxattr(from, name, value, XATTR_SIZE_MAX);
        int r;

        if (n < 0)
                return errno == ENODATA ? 0 : -errno;
        r = setxattr(to, name, value, (size_t)n, 0) < 0 ? -errno : 0;
        return may_refuse(name, r) ? 0 : r;
}

static int copy_xattrs(const char *from, const char *to, bool with_marks)
{
        AUTO_FREE char *names = NULL, *value = NULL;
        ssize_t n = listxattr(from, NULL, 0);
        int r = 0;

        if (n <= 0)
                return n == 0 || errno == EOPNOTSUPP ? 0 : -errno;
        names = malloc(XATTR_LIST_MAX + 1);
        value = malloc(XATTR_SIZE_MAX);
        if (!names || !value)
                return -ENOMEM;
        n = listxattr(from, names, XATTR_LIST_MAX);
        if (n < 0)
                return -errno;
        names[n] = '\0';
        for (const char *name = names; name < names + n && r == 0; name += strlen(name) + 1)
                if (with_marks || !has_prefix(name, OVERLAY_PREFIX) || has_prefix(name, OVERLAY_ESCAPED))
                        r = copy_xattr(from, to, name, value);
        return r;
}

int entry_copy_attrs(int from, int to, const struct stat *st, bool with_marks)
{
        struct timespec times[2] = {st->st_atim, st->st_mtim};
        char from_path[FD_PATH_MAX], to_path[FD_PATH_MAX];
        int r;

        name_fd(from, from_path);
        name_fd(to, to_path);
        if (fchownat(to, "", st->st_uid, st->st_gid, AT_EMPTY_PATH) < 0)
                return -errno;
        r = copy_xattrs(from_path, to_path, with_marks);
        if (r == 0 && !S_ISLNK(st->st_mode) && chmod(to_path, st->st_mode & 07777) < 0)
                r = -errno;
        if (r == 0 && utimensat(to, "", times, AT_EMPTY_PATH) < 0)
                r = -errno;
        return r;
}
