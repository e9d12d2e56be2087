#include "serve/setup/datadir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "model/conf.h"
#include "serve/setup/layout.h"
#include "sys/fs.h"

#define DATA_DIR_MAX 90 /* a socket's whole path has 107 bytes at most */

/* The directory at path with this owner and mode, whatever it was before. */
static int dir_with(const char *path, unsigned mode, uint32_t uid, struct err *err)
{
        AUTO_CLOSE int fd = -1;

        if (mkdir(path, 0700) < 0 && errno != EEXIST)
                return err_sys(err, -errno, "make directory '%s'", path);
        fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fchown(fd, uid, uid) < 0 || fchmod(fd, mode) < 0)
                return err_sys(err, -errno, "set up directory '%s'", path);
        return 0;
}

/* Everything above the last name, made with ordinary modes. */
static int make_parents(const char *path, struct err *err)
{
        AUTO_FREE char *at = strdup(path);

        if (!at)
                return err_set(err, ERR_LIMIT, "out of memory");
        for (char *slash = strchr(at + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
                *slash = 0;
                if (mkdir(at, 0755) < 0 && errno != EEXIST)
                        return err_sys(err, -errno, "make directory '%s'", at);
                *slash = '/';
        }
        return 0;
}

/* Control and edge are nobody special: each directory on the way must let everyone pass. */
static int check_way(const char *path, struct err *err)
{
        AUTO_FREE char *at = realpath(path, NULL);
        struct stat st;

        if (!at)
                return err_sys(err, -errno, "resolve '%s'", path);
        for (char *slash = strrchr(at, '/'); slash && slash > at; slash = strrchr(at, '/')) {
                *slash = 0;
                if (stat(at, &st) < 0)
                        return err_sys(err, -errno, "look at '%s'", at);
                if (!(st.st_mode & S_IXOTH))
                        return err_set(err, ERR_DENIED,
                                       "'%s' is closed to others (mode %04o), so the unprivileged roles cannot reach "
                                       "'%s': choose another place, or use `chmod o+x` on the first directory",
                                       at, st.st_mode & 07777, path);
        }
        return 0;
}

int images_prepare(const char *images_dir, struct err *err)
{
        AUTO_FREE char *layers = NULL, *templates = NULL;
        int r;

        if (asprintf(&layers, "%s/layers", images_dir) < 0 || asprintf(&templates, "%s/templates", images_dir) < 0)
                return err_set(err, ERR_LIMIT, "out of memory");
        r = make_parents(layers, err);
        if (r == 0)
                r = dir_with(images_dir, 0755, 0, err);
        if (r == 0)
                r = dir_with(layers, 0700, 0, err); /* its programs with setuid bits are root's, but only inside */
        return r < 0 ? r : dir_with(templates, 0755, 0, err);
}

int datadir_prepare(const struct conf *c, struct err *err)
{
        const struct {
                const char *name;
                unsigned mode;
                uint32_t uid;
        } parts[] = {
                {"run", 0711, 0},
                {"store", 0700, c->control_uid},
                {"ca", 0755, 0},
                {"sandboxes", 0700, 0},
                {"trash", 0700, 0},
                {"uploads", 0700, c->control_uid},
                {"builds", 0700, c->control_uid},
                {"blobs", 0700, c->puller_uid},
        };
        int r;

        r = layout_check(c->data_dir, err);
        if (r < 0)
                return r;
        if (strlen(c->data_dir) > DATA_DIR_MAX)
                return err_set(err, ERR_INVALID, "--data: the path is longer than %d bytes", DATA_DIR_MAX);
        r = make_parents(c->data_dir, err);
        if (r == 0)
                r = dir_with(c->data_dir, 0711, 0, err);
        if (r == 0)
                r = layout_write(c->data_dir, err);
        for (size_t i = 0; r == 0 && i < ARRAY_LEN(parts); i++) {
                AUTO_FREE char *path = conf_path(c, parts[i].name);

                r = path ? dir_with(path, parts[i].mode, parts[i].uid, err) : err_set(err, ERR_LIMIT, "out of memory");
        }
        if (r == 0)
                r = images_prepare(c->images_dir, err);
        if (r == 0)
                r = check_way(c->data_dir, err);
        return r < 0 ? r : check_way(c->images_dir, err);
}

static pid_t lock_read_pid(int fd)
{
        char text[32];
        ssize_t n = pread(fd, text, sizeof(text), 0);
        uint32_t pid;

        if (n <= 0 || text[n - 1] != '\n' || parse_u32((struct str){text, (size_t)n - 1}, 1, INT32_MAX, &pid) < 0)
                return -EINVAL;
        return (pid_t)pid;
}

int datadir_lock(const struct conf *c, int *ret_fd, struct err *err)
{
        AUTO_FREE char *path = conf_path(c, "lock");
        AUTO_CLOSE int fd = -1;
        char text[32];
        int len;

        fd = path ? open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600) : -1;
        if (fd < 0)
                return err_sys(err, -errno, "open '%s'", path);
        if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
                if (errno != EWOULDBLOCK)
                        return err_sys(err, -errno, "lock '%s'", path);
                return err_set(err, ERR_CONFLICT, "data directory '%s' is in use by the server with pid %d",
                               c->data_dir, (int)lock_read_pid(fd));
        }
        /* Over the number before: on a full disk there is room for nothing else. */
        len = snprintf(text, sizeof(text), "%d\n", (int)getpid());
        if (pwrite(fd, text, (size_t)len, 0) != len || ftruncate(fd, len) < 0)
                return err_sys(err, -errno, "write '%s'", path);
        *ret_fd = TAKE_FD(fd);
        return 0;
}

pid_t datadir_holder(const struct conf *c)
{
        AUTO_FREE char *path = conf_path(c, "lock");
        AUTO_CLOSE int fd = -1;

        fd = path ? open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
        if (fd < 0)
                return errno == ENOENT ? 0 : -errno;
        if (flock(fd, LOCK_SH | LOCK_NB) == 0)
                return 0;
        return errno == EWOULDBLOCK ? lock_read_pid(fd) : -errno;
}

int file_replace(const char *path, unsigned mode, const void *p, size_t n)
{
        AUTO_FREE char *dir = strndup(path, (size_t)(strrchr(path, '/') - path));
        AUTO_CLOSE int fd = -1;

        fd = dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        return fd < 0 ? -errno : sys_replace_at(fd, strrchr(path, '/') + 1, p, n, mode);
}

int file_replace_lines(const char *path, unsigned mode, const void *p, size_t n)
{
        int r = file_replace(path, mode, p, n);

        return sys_is_full(r) && sys_overwrite_at(AT_FDCWD, path, p, n, '\n') == 0 ? 0 : r;
}

int file_read(const char *path, struct buf *out)
{
        AUTO_CLOSE int fd = -1;
        struct stat st;
        ssize_t n;

        fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        if (fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode))
                return -EINVAL;
        do {
                n = buf_fill(out, fd, buf_room(out));
        } while (n > 0); /* without room for one byte more the end is not seen: -E2BIG */
        return n < 0 ? (int)n : 0;
}
