#include "mcp/tools/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "mcp/protocol/mcp.h"

#define LINKS_MAX 40 /* as the kernel */

int path_of(const struct mcp *m, const char *path, char *ret, struct err *err)
{
        int n = path[0] == '/' ? snprintf(ret, PATH_MAX, "%s", path)
                               : snprintf(ret, PATH_MAX, "%s/%s", m->opt.workspace, path);

        return n >= PATH_MAX ? err_set(err, ERR_INVALID, "the path is too long") : 0;
}

static int fail(struct err *err, int e, const char *path)
{
        switch (e) {
        case ENOENT:
        case ENOTDIR: return err_set(err, ERR_NOT_FOUND, "%s does not exist", path);
        case EACCES:
        case EPERM: return err_set(err, ERR_DENIED, "%s: permission denied", path);
        case ENOSPC:
        case EDQUOT: return err_set(err, ERR_NO_SPACE, "%s: the disk is full", path);
        default: return err_sys(err, -e, "%s", path);
        }
}

int file_open(const char *path, struct stat *ret_st, int *ret_fd, struct err *err)
{
        AUTO_CLOSE int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);

        if (fd < 0 || fstat(fd, ret_st) < 0)
                return fail(err, errno, path);
        if (S_ISDIR(ret_st->st_mode))
                return err_set(err, ERR_INVALID, "%s is a directory: list_directory shows what is in it", path);
        if (!S_ISREG(ret_st->st_mode))
                return err_set(err, ERR_INVALID, "%s is not a regular file", path);
        *ret_fd = TAKE_FD(fd);
        return 0;
}

int file_read(const char *path, struct buf *out, struct err *err)
{
        AUTO_CLOSE int fd = -1;
        struct stat st;
        ssize_t n;
        int r = file_open(path, &st, &fd, err);

        if (r < 0)
                return r;
        do
                n = buf_fill(out, fd, 1u << 20);
        while (n > 0);
        if (n == -E2BIG)
                return err_set(err, ERR_TOO_LARGE, "%s is larger than %u bytes", path, FILE_BYTES_MAX);
        return n < 0 ? fail(err, (int)-n, path) : 0;
}

static int make_parents(const char *path, struct err *err)
{
        char dir[PATH_MAX];

        (void)snprintf(dir, sizeof(dir), "%s", path);
        for (char *slash = strchr(dir + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
                *slash = '\0';
                if (mkdir(dir, 0777) < 0 && errno != EEXIST)
                        return fail(err, errno, dir);
                *slash = '/';
        }
        return 0;
}

static int write_all(int fd, struct str content)
{
        while (content.n > 0) {
                ssize_t n = write(fd, content.p, content.n);

                if (n < 0 && errno != EINTR)
                        return -errno;
                n = n < 0 ? 0 : n;
                content = (struct str){content.p + n, content.n - (size_t)n};
        }
        return 0;
}

/* The file that the path leads to, through links; as open(O_CREAT), the last link may lead to a file that is not there yet. */
static int follow(const char *path, char *ret)
{
        char link[PATH_MAX], next[PATH_MAX];
        ssize_t n;

        if (realpath(path, ret))
                return 0;
        (void)snprintf(ret, PATH_MAX, "%s", path);
        for (unsigned i = 0; (n = readlink(ret, link, sizeof(link) - 1)) >= 0; i++) {
                const char *slash = link[0] == '/' ? NULL : strrchr(ret, '/');
                int dir = slash ? (int)(slash + 1 - ret) : 0;

                if (i == LINKS_MAX)
                        return -ELOOP;
                if (snprintf(next, sizeof(next), "%.*s%.*s", dir, ret, (int)n, link) >= (int)sizeof(next))
                        return -ENAMETOOLONG;
                memcpy(ret, next, strlen(next) + 1);
        }
        return 0;
}

/* Room for the content is taken first: a full disk leaves the file as it was. */
static int write_in_place(const char *target, struct str content)
{
        AUTO_CLOSE int fd = open(target, O_WRONLY | O_CLOEXEC | O_NOCTTY);
        int r = fd < 0 ? -errno : 0;

        if (r == 0 && content.n && fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)content.n) < 0 && errno == ENOSPC)
                r = -ENOSPC;
        if (r == 0)
                r = write_all(fd, content);
        return r == 0 && ftruncate(fd, (off_t)content.n) < 0 ? -errno : r;
}

/* A new file in place of the other one.  st: of the file that is there; NULL: none is. */
static int write_beside(const char *target, struct str content, const struct stat *st)
{
        char beside[PATH_MAX + 32], random[9];
        AUTO_CLOSE int fd = -1;
        int r;

        random_id(random, 8);
        (void)snprintf(beside, sizeof(beside), "%s.%s.tmp", target, random);
        fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0)
                return -errno;
        r = write_all(fd, content);
        if (r == 0 && st) { /* the owner stays where this user may say so */
                (void)!fchown(fd, st->st_uid, st->st_gid);
                (void)fchmod(fd, st->st_mode & 07777);
        }
        if (r == 0 && rename(beside, target) < 0)
                r = -errno;
        if (r < 0)
                (void)unlink(beside);
        return r;
}

/* The directory is not ours to change, or the file is a mount of its own: the file itself may be written. */
static bool is_fixed(int r)
{
        return r == -EACCES || r == -EPERM || r == -EROFS || r == -EBUSY;
}

int file_replace(const char *path, struct str content, bool *ret_is_new, struct err *err)
{
        char target[PATH_MAX];
        struct stat st;
        bool is_new;
        int r = make_parents(path, err);

        if (r < 0)
                return r;
        r = follow(path, target);
        if (r < 0)
                return fail(err, -r, path);
        is_new = stat(target, &st) < 0;
        if (!is_new && S_ISDIR(st.st_mode))
                return err_set(err, ERR_INVALID, "%s is a directory", path);
        if (!is_new && !S_ISREG(st.st_mode))
                return err_set(err, ERR_INVALID, "%s is not a regular file", path);
        if (!is_new && access(target, W_OK) < 0)
                return fail(err, errno, path);
        r = !is_new && st.st_nlink > 1 ? write_in_place(target, content)
                                       : write_beside(target, content, is_new ? NULL : &st);
        if (!is_new && st.st_nlink == 1 && is_fixed(r))
                r = write_in_place(target, content);
        if (r < 0)
                return fail(err, -r, path);
        *ret_is_new = is_new;
        return 0;
}
