#include "engine/storage/upper_copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/err.h"
#include "engine/storage/entry_copy.h"
#include "sys/fs.h"

struct copied_link { /* a file with several names that is copied already */
        ino_t ino;
        char *path; /* of the copy, below its root; owned */
};

struct upper_walk {
        struct tree_size size;
        int root; /* of the copy; -1: nothing is copied, only measured */
        char path[PATH_MAX];
        size_t path_len; /* of the directory we are in, below the root; ends in '/' unless empty */
        struct copied_link links[UPPER_COPY_ENTRIES_MAX];
        size_t link_count;
};

static int visit_directory(struct upper_walk *w, int from, int to, unsigned depth);

static bool is_whiteout_node(const struct stat *st)
{
        return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

/* ------------------------------------------------------------- one entry */

static int copy_symlink(int from, int out, const char *name)
{
        char target[PATH_MAX];
        ssize_t n = readlinkat(from, "", target, sizeof(target) - 1);

        if (n < 0)
                return -errno;
        target[n] = '\0';
        return symlinkat(target, out, name) < 0 ? -errno : 0;
}

static int copy_file(int dir, int out, const char *name, const struct stat *st)
{
        AUTO_CLOSE int from = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_NOATIME | O_CLOEXEC);
        AUTO_CLOSE int to = -1;

        if (from < 0)
                return -errno;
        to = openat(out, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        return to < 0 ? -errno : entry_copy_data(from, to, st->st_size);
}

static int make_entry(int dir, int src, int out, const char *name, const struct stat *st)
{
        if (S_ISREG(st->st_mode))
                return copy_file(dir, out, name, st);
        if (S_ISLNK(st->st_mode))
                return copy_symlink(src, out, name);
        if (S_ISDIR(st->st_mode))
                return mkdirat(out, name, 0700) < 0 ? -errno : 0;
        if (!S_ISFIFO(st->st_mode) && !S_ISSOCK(st->st_mode) && !is_whiteout_node(st))
                return -EPERM; /* a device, which a sandbox cannot make */
        return mknodat(out, name, (st->st_mode & S_IFMT) | 0600, st->st_rdev) < 0 ? -errno : 0;
}

/* 1: linked to the copy that was made under another name.  0: there is none. */
static int link_again(struct upper_walk *w, int out, const char *name, ino_t ino)
{
        for (size_t i = 0; i < w->link_count; i++)
                if (w->links[i].ino == ino) {
                        if (linkat(w->root, w->links[i].path, out, name, 0) == 0)
                                return 1;
                        return errno == EMLINK ? 0 : -errno; /* the copy cannot take more names: another copy */
                }
        return 0;
}

static int remember_link(struct upper_walk *w, const char *name, ino_t ino)
{
        struct copied_link *l = &w->links[w->link_count];

        l->ino = ino;
        if (asprintf(&l->path, "%.*s%s", (int)w->path_len, w->path, name) < 0)
                return -ENOMEM;
        w->link_count++;
        return 0;
}

static int copy_below(struct upper_walk *w, int src, int dst, const char *name, unsigned depth)
{
        size_t before = w->path_len, n = strlen(name);
        int r;

        if (depth >= UPPER_COPY_DEPTH_MAX || before + n + 1 + NAME_MAX >= sizeof(w->path))
                return -EFBIG;
        if (n > 0) { /* else this is the root itself */
                memcpy(w->path + before, name, n);
                w->path[before + n] = '/';
                w->path_len += n + 1;
        }
        r = visit_directory(w, src, dst, depth + 1);
        w->path_len = before;
        return r;
}

static int copy_entry(struct upper_walk *w, int dir, int src, int out, const char *name, const struct stat *st,
                      unsigned depth)
{
        AUTO_CLOSE int dst = -1;
        bool is_shared = !S_ISDIR(st->st_mode) && st->st_nlink > 1;
        int r = is_shared ? link_again(w, out, name, st->st_ino) : 0;

        if (r != 0)
                return r < 0 ? r : 0;
        r = make_entry(dir, src, out, name, st);
        if (r < 0)
                return r;
        dst = openat(out, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (dst < 0)
                return -errno;
        if (S_ISDIR(st->st_mode))
                r = copy_below(w, src, dst, name, depth);
        if (r == 0)
                r = entry_copy_attrs(src, dst, st, true);
        return r == 0 && is_shared ? remember_link(w, name, st->st_ino) : r;
}

/* ------------------------------------------------------------- all of them */

static int count_entry(struct upper_walk *w, const struct stat *st)
{
        w->size.entries++;
        w->size.bytes += (uint64_t)st->st_blocks * 512u;
        return w->size.entries > UPPER_COPY_ENTRIES_MAX || w->size.bytes > UPPER_COPY_BYTES_MAX ? -EFBIG : 0;
}

/* The sandbox may change the tree while it is measured: what was seen counts. */
static int measure_entry(struct upper_walk *w, int src, const char *name, const struct stat *st, unsigned depth)
{
        int r = S_ISDIR(st->st_mode) ? copy_below(w, src, -1, name, depth) : 0;

        return r == -EFBIG ? r : 0;
}

static int visit_entry(struct upper_walk *w, int dir, int out, const char *name, unsigned depth)
{
        AUTO_CLOSE int src = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        struct stat st;
        int r;

        if (src < 0 || fstat(src, &st) < 0)
                return w->root < 0 ? 0 : -errno;
        r = count_entry(w, &st);
        if (r < 0)
                return r;
        return w->root < 0 ? measure_entry(w, src, name, &st, depth) : copy_entry(w, dir, src, out, name, &st, depth);
}

static int visit_directory(struct upper_walk *w, int from, int to, unsigned depth)
{
        AUTO_DIR DIR *d = sys_list(from);
        struct dirent *e;
        int r = d ? 0 : -errno;

        while (r == 0 && (errno = 0, e = sys_list_next(d)))
                r = visit_entry(w, from, to, e->d_name, depth);
        return r < 0 ? r : -errno;
}

static int explain_failure(int r, struct err *err)
{
        if (r == -EFBIG)
                return err_set(err, ERR_TOO_LARGE, "its files are more than %u MiB, %u entries or %u levels",
                               UPPER_COPY_BYTES_MAX >> 20, UPPER_COPY_ENTRIES_MAX, UPPER_COPY_DEPTH_MAX);
        return err_sys(err, r, "copy its files");
}

static void upper_walk_free(struct upper_walk *w)
{
        for (size_t i = 0; w && i < w->link_count; i++)
                free(w->links[i].path);
        free(w);
}

int upper_measure(int dir, const char *name, struct tree_size *ret, struct err *err)
{
        AUTO_CLOSE int from = sys_open_dir(dir, name);
        struct upper_walk *w = calloc(1, sizeof(*w));
        int r = from < 0 ? from : !w ? -ENOMEM : 0;

        if (r == 0) {
                w->root = -1;
                r = copy_below(w, from, -1, "", 0);
        }
        if (r == 0)
                *ret = w->size;
        upper_walk_free(w);
        return r < 0 ? explain_failure(r, err) : 0;
}

static int copy_root(struct upper_walk *w, int dir, const char *name, const char *to)
{
        AUTO_CLOSE int from = sys_open_dir(dir, name), root = -1;
        struct stat st;
        int r;

        if (from < 0)
                return from;
        if (fstat(from, &st) < 0 || mkdirat(dir, to, 0700) < 0)
                return -errno;
        root = sys_open_dir(dir, to);
        if (root < 0)
                return root;
        w->root = root;
        r = copy_below(w, from, root, "", 0);
        return r < 0 ? r : entry_copy_attrs(from, root, &st, true);
}

int upper_copy(int dir, const char *name, const char *to, struct tree_size *ret, struct err *err)
{
        struct upper_walk *w = calloc(1, sizeof(*w));
        int r = w ? copy_root(w, dir, name, to) : -ENOMEM;

        if (r == 0)
                *ret = w->size;
        upper_walk_free(w);
        return r < 0 ? explain_failure(r, err) : 0;
}
