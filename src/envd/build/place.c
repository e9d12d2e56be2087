#include "envd/build/place.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "sys/fs.h"

#define NOTES_MAX 100
#define DEPTH_MAX 512 /* of directories that are emptied */

struct dir_time {
        char *path; /* owned */
        struct timespec mtime;
};

int place_open(struct place *p, const struct place_rules *rules, struct err *err)
{
        struct stat st;

        *p = (struct place){.rules = *rules, .root = -1, .parent = -1, .file = -1, .notes = json_array()};
        p->root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (p->root < 0 || fstat(p->root, &st) < 0 || !p->notes)
                return err_sys(err, p->notes ? -errno : -ENOMEM, "open /");
        p->root_dev = st.st_dev;
        return 0;
}

void place_forget_parent(struct place *p)
{
        close_fd(&p->parent);
        p->parent_path[0] = '\0';
}

void place_done(struct place *p)
{
        place_forget_parent(p);
        close_fd(&p->root);
        close_fd(&p->file);
        map_done(&p->made);
        map_done(&p->links);
        for (size_t i = 0; i < p->time_count; i++)
                free(p->times[i].path);
        free(p->times);
        json_decref(p->notes);
}

void place_note(struct place *p, const char *fmt, ...)
{
        AUTO_BUF struct buf text = BUF_INIT(2 * PATH_MAX);
        json_t *note;
        va_list ap;
        int r;

        if (json_array_size(p->notes) >= NOTES_MAX)
                return;
        va_start(ap, fmt);
        r = buf_vaddf(&text, fmt, ap);
        va_end(ap);
        note = r == 0 ? json_stringn((const char *)buf_at(&text), text.len) : NULL;
        if (note)
                (void)json_array_append_new(p->notes, note);
}

/* ---- directories on the way ---- */

static int open_dir(const struct place *p, const char *path)
{
        struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
                               .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS |
                                          (p->rules.stays_on_root ? RESOLVE_NO_XDEV : 0)};
        long fd = syscall(SYS_openat2, p->root, path[0] ? path : ".", &how, sizeof(how));

        return fd < 0 ? -errno : (int)fd;
}

int place_remember(struct place *p, const char *path)
{
        return p->rules.remembers ? map_put(&p->made, str_of(path), p, NULL) : 0;
}

/* An archive must not lead its own entries elsewhere by a link that it brings along. */
static int check_links(const struct place *p, const char *path, struct err *err)
{
        if (!p->rules.refuses_links || p->links.used == 0)
                return 0;
        for (size_t n = 1; path[n - 1]; n++)
                if ((path[n] == '/' || path[n] == '\0') && map_get(&p->links, (struct str){path, n}))
                        return err_set(err, ERR_INVALID,
                                       "an entry goes through the symbolic link '%.*s' of the same archive",
                                       (int)(n < 150 ? n : 150), path);
        return 0;
}

static int make_missing_dir(struct place *p, int above, const char *path, size_t from, size_t to)
{
        char part[NAME_MAX + 1];

        memcpy(part, path + from, to - from);
        part[to - from] = '\0';
        if (mkdirat(above, part, 0755) < 0)
                return errno == EEXIST ? 0 : -errno;
        return fchownat(above, part, p->rules.uid, p->rules.gid, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* Open the directory, making what is missing from the top. */
static int make_dirs(struct place *p, const char *path)
{
        AUTO_CLOSE int above = open_dir(p, "");
        char prefix[PATH_MAX];
        size_t from = 0;

        if (above < 0)
                return TAKE_FD(above);
        for (size_t n = 1; path[n - 1]; n++) {
                int fd, r;

                if (path[n] != '/' && path[n] != '\0')
                        continue;
                memcpy(prefix, path, n);
                prefix[n] = '\0';
                fd = open_dir(p, prefix);
                if (fd == -ENOENT) {
                        r = make_missing_dir(p, above, path, from, n);
                        if (r < 0)
                                return r;
                        fd = open_dir(p, prefix);
                }
                if (fd < 0)
                        return fd;
                close_fd(&above);
                above = fd;
                from = n + 1;
        }
        return TAKE_FD(above);
}

static int remember_dirs(struct place *p, const char *path)
{
        char prefix[PATH_MAX];
        int r = 0;

        for (size_t n = 1; r == 0 && p->rules.remembers && path[0] && path[n - 1]; n++) {
                if (path[n] != '/' && path[n] != '\0')
                        continue;
                memcpy(prefix, path, n);
                prefix[n] = '\0';
                if (!map_get(&p->made, str_of(prefix)))
                        r = place_remember(p, prefix);
        }
        return r;
}

static int enter_dir(struct place *p, const char *path, struct err *err)
{
        struct stat st;
        int fd, r;

        r = check_links(p, path, err);
        if (r < 0)
                return r;
        place_forget_parent(p);
        fd = open_dir(p, path);
        if (fd == -ENOENT)
                fd = make_dirs(p, path);
        p->is_parent_elsewhere = fd == -EXDEV;
        (void)snprintf(p->parent_path, sizeof(p->parent_path), "%s", path);
        if (p->is_parent_elsewhere) {
                place_note(p, "'/%s' is not a directory of the image: left out", path);
                return 1;
        }
        if (fd == -ENOTDIR)
                return err_set(err, ERR_INVALID, "'/%.200s' is not a directory", path);
        if (fd < 0)
                return err_sys(err, fd, "open '/%.150s'", path);
        p->parent = fd;
        r = remember_dirs(p, path);
        if (r < 0 || fstat(fd, &st) < 0)
                return err_sys(err, r < 0 ? r : -errno, "open '/%.150s'", path);
        p->parent_is_setgid = st.st_mode & S_ISGID;
        return 0;
}

int place_parent(struct place *p, const char *path, const char **ret_base, struct err *err)
{
        const char *slash = strrchr(path, '/');
        size_t n = slash ? (size_t)(slash - path) : 0;
        char dir[PATH_MAX];

        if (strlen(path) >= sizeof(dir))
                return err_set(err, ERR_INVALID, "the path '%.100s...' is too long", path);
        *ret_base = slash ? slash + 1 : path;
        if ((p->parent >= 0 || p->is_parent_elsewhere) && strlen(p->parent_path) == n &&
            memcmp(p->parent_path, path, n) == 0)
                return p->is_parent_elsewhere ? 1 : 0;
        memcpy(dir, path, n);
        dir[n] = '\0';
        return enter_dir(p, dir, err);
}

int place_make_dirs(struct place *p, const char *path, struct err *err)
{
        return enter_dir(p, path, err);
}

/* ---- what older layers have ---- */

static int remove_older_at(struct place *p, int dir, const char *name, const char *path, unsigned depth);

static int empty_older_at(struct place *p, int dir, const char *path, unsigned depth)
{
        AUTO_DIR DIR *d = sys_list(dir);
        struct dirent *e;
        int r = d ? 0 : -errno;

        while (r == 0 && (e = sys_list_next(d))) {
                AUTO_FREE char *below = NULL;

                if (asprintf(&below, "%s%s%s", path, path[0] ? "/" : "", e->d_name) < 0)
                        return -ENOMEM;
                r = remove_older_at(p, dir, e->d_name, below, depth + 1);
        }
        return r;
}

static int remove_older_at(struct place *p, int dir, const char *name, const char *path, unsigned depth)
{
        AUTO_CLOSE int fd = -1;
        struct stat st;
        int r;

        if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : -errno;
        if (S_ISDIR(st.st_mode) && st.st_dev != p->root_dev)
                return 0; /* hung in by the engine */
        if (!map_get(&p->made, str_of(path))) {
                r = sys_remove_tree(dir, name);
                if (r == -EBUSY)
                        place_note(p, "'/%s' cannot be removed: it is in use", path);
                return r == -EBUSY ? 0 : r;
        }
        if (!S_ISDIR(st.st_mode))
                return 0;
        if (depth > DEPTH_MAX)
                return -ELOOP;
        fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? -errno : empty_older_at(p, fd, path, depth);
}

int place_remove_older(struct place *p, const char *path, struct err *err)
{
        const char *base;
        int r = place_parent(p, path, &base, err);

        if (r)
                return r < 0 ? r : 0;
        r = remove_older_at(p, p->parent, base, path, 0);
        if (r < 0)
                return err_sys(err, r, "remove '/%.150s'", path);
        return 0;
}

int place_empty_older(struct place *p, const char *dir, struct err *err)
{
        int r = enter_dir(p, dir, err);

        if (r)
                return r < 0 ? r : 0;
        r = empty_older_at(p, p->parent, dir, 0);
        return r < 0 ? err_sys(err, r, "empty '/%.150s'", dir) : 0;
}

/* ---- times of directories ---- */

int place_keep_time(struct place *p, const char *path, const struct tar_entry *e)
{
        if ((p->time_count & (p->time_count - 1)) == 0) { /* grows at powers of two */
                size_t cap = p->time_count ? 2 * p->time_count : 1;
                struct dir_time *more = realloc(p->times, cap * sizeof(*more));

                if (!more)
                        return -ENOMEM;
                p->times = more;
        }
        p->times[p->time_count] = (struct dir_time){.path = strdup(path), .mtime = {e->mtime_s, e->mtime_ns}};
        if (!p->times[p->time_count].path)
                return -ENOMEM;
        p->time_count++;
        return 0;
}

void place_finish(struct place *p)
{
        place_forget_parent(p);
        for (size_t i = p->time_count; i > 0; i--) {
                const struct dir_time *t = &p->times[i - 1];
                struct timespec times[2] = {t->mtime, t->mtime};
                AUTO_CLOSE int fd = open_dir(p, t->path);

                if (fd >= 0)
                        (void)futimens(fd, times); /* a time that does not fit is no reason to fail */
        }
}
