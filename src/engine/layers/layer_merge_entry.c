#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "engine/layers/layer_merge_impl.h"

void entries_init(struct merged_entries *e, struct layer_merge_count *count)
{
        *e = (struct merged_entries){.whiteout = -1, .count = count};
        for (unsigned i = 0; i < LAYER_MERGE_COPIES; i++)
                e->copies[i].fd = -1;
}

void entries_done(struct merged_entries *e)
{
        close_fd(&e->whiteout);
        for (unsigned i = 0; i < LAYER_MERGE_COPIES; i++)
                close_fd(&e->copies[i].fd);
}

int is_whiteout(int dir, const char *name, const struct stat *st)
{
        AUTO_CLOSE int fd = -1;

        if (S_ISCHR(st->st_mode))
                return st->st_rdev == makedev(0, 0);
        if (!S_ISREG(st->st_mode) || st->st_size != 0)
                return 0;
        fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_NOATIME | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        return fgetxattr(fd, OVERLAY_WHITEOUT, NULL, 0) >= 0;
}

static int link_fd(int fd, int out, const char *name)
{
        return linkat(fd, "", out, name, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

int entries_whiteout(struct merged_entries *e, int out, const char *name)
{
        int r = e->whiteout < 0 ? -EMLINK : link_fd(e->whiteout, out, name);

        if (r == -EMLINK) {
                close_fd(&e->whiteout);
                r = mknodat(out, name, S_IFCHR, makedev(0, 0)) < 0 ? -errno : 0;
                if (r == 0)
                        e->whiteout = openat(out, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        }
        if (r == 0)
                e->count->whiteouts++;
        return r;
}

static int entries_copy_file(int src, int out, const char *name, const struct stat *st)
{
        AUTO_CLOSE int from = openat(src, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_NOATIME | O_CLOEXEC);
        AUTO_CLOSE int to = -1;
        int r;

        if (from < 0)
                return -errno;
        to = openat(out, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (to < 0)
                return -errno;
        r = entry_copy_data(from, to, st->st_size);
        return r < 0 ? r : entry_copy_attrs(from, to, st, false);
}

static int entries_copy_special(int src, int out, const char *name, const struct stat *st)
{
        struct timespec times[2] = {st->st_atim, st->st_mtim};
        char target[PATH_MAX];
        ssize_t n;
        int r;

        if (S_ISLNK(st->st_mode)) {
                n = readlinkat(src, name, target, sizeof(target) - 1);
                if (n < 0)
                        return -errno;
                target[n] = '\0';
                r = symlinkat(target, out, name);
        } else {
                r = mknodat(out, name, st->st_mode & (S_IFMT | 07777), st->st_rdev);
        }
        if (r < 0 || fchownat(out, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        if (!S_ISLNK(st->st_mode) && fchmodat(out, name, st->st_mode & 07777, 0) < 0)
                return -errno;
        return utimensat(out, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int *find_copy(struct merged_entries *e, ino_t of)
{
        for (unsigned i = 0; i < LAYER_MERGE_COPIES; i++)
                if (e->copies[i].fd >= 0 && e->copies[i].of == of)
                        return &e->copies[i].fd;
        return NULL;
}

static void keep_copy(struct merged_entries *e, ino_t of, int out, const char *name)
{
        unsigned i = e->next_copy++ % LAYER_MERGE_COPIES;

        close_fd(&e->copies[i].fd);
        e->copies[i].of = of;
        e->copies[i].fd =
                openat(out, name, O_PATH | O_NOFOLLOW | O_CLOEXEC); /* -1: then the next name is copied, too */
}

/* The inode has as many names as it can have.  Further names are linked to one copy, so that they are still one file. */
static int entries_copy(struct merged_entries *e, int src, int out, const char *name, const struct stat *st)
{
        int *fd = find_copy(e, st->st_ino);
        int r = fd ? link_fd(*fd, out, name) : -EMLINK;

        if (r != -EMLINK)
                return r;
        if (fd)
                close_fd(fd);
        r = S_ISREG(st->st_mode) ? entries_copy_file(src, out, name, st) : entries_copy_special(src, out, name, st);
        if (r < 0)
                return r;
        keep_copy(e, st->st_ino, out, name);
        e->count->copied++;
        return 0;
}

int entries_link(struct merged_entries *e, int src, int out, const char *name, const struct stat *st)
{
        int r = linkat(src, name, out, name, 0) < 0 ? -errno : 0;

        if (r == -EMLINK)
                r = entries_copy(e, src, out, name, st);
        if (r == 0)
                e->count->files++;
        return r;
}
