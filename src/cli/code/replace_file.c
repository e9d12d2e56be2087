#include "cli/code/replace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"

/* The directory of a path, malloc'd: "." where it names none. */
static char *directory_of(const char *path)
{
        const char *slash = strrchr(path, '/');

        if (!slash)
                return strdup(".");
        return strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

int file_replacement_prepare(struct file_replacement *ret, const char *path, struct err *err)
{
        AUTO_FREE char *dir = NULL, *real = realpath(path, NULL);
        struct stat st;

        if (!real && errno != ENOENT)
                return err_sys(err, -errno, "write '%s'", path);
        if (!real)
                real = strdup(path);
        dir = real ? directory_of(real) : NULL;
        if (!dir)
                return err_set(err, ERR_LIMIT, "out of memory");
        if (stat(real, &st) == 0 && !S_ISREG(st.st_mode))
                return err_set(err, ERR_INVALID, "'%s' is no regular file", path);
        if (faccessat(AT_FDCWD, dir, W_OK | X_OK, AT_EACCESS) < 0)
                return err_sys(err, -errno, "write into the directory '%s'", dir);
        *ret = (struct file_replacement){.path = TAKE_PTR(real)};
        return 0;
}

static int write_content(int fd, struct buf *content)
{
        while (content->len) {
                ssize_t n = buf_drain(content, fd);

                if (n < 0 && n != -EINTR)
                        return (int)n;
        }
        return fsync(fd) < 0 ? -errno : 0;
}

static void copy_mode(int fd, const char *path)
{
        struct stat st;
        mode_t mask;

        if (stat(path, &st) == 0) {
                (void)!fchown(fd, st.st_uid, st.st_gid); /* only root may: the file is then the user's own */
                (void)fchmod(fd, st.st_mode & 07777);
                return;
        }
        mask = umask(0);
        (void)umask(mask);
        (void)fchmod(fd, 0666 & ~mask);
}

int file_replacement_write(struct file_replacement *f, struct buf *content, struct err *err)
{
        AUTO_FREE char *dir = directory_of(f->path);
        AUTO_CLOSE int fd = -1;
        int r;

        if (!dir || asprintf(&f->temporary, "%s/.sandglass-XXXXXX", dir) < 0) {
                f->temporary = NULL;
                return err_set(err, ERR_LIMIT, "out of memory");
        }
        fd = mkostemp(f->temporary, O_CLOEXEC);
        if (fd < 0) {
                r = -errno;
                free(f->temporary);
                f->temporary = NULL;
                return err_sys(err, r, "write into the directory '%s'", dir);
        }
        copy_mode(fd, f->path);
        r = write_content(fd, content);
        if (r == 0 && rename(f->temporary, f->path) < 0)
                r = -errno;
        if (r < 0)
                return err_sys(err, r, "write '%s'", f->path);
        free(f->temporary);
        f->temporary = NULL;
        return 0;
}

void file_replacement_done(struct file_replacement *f)
{
        if (f->temporary)
                (void)unlink(f->temporary);
        free(f->temporary);
        free(f->path);
        *f = (struct file_replacement){0};
}
