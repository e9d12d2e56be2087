#include "envd/watch/watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/buf.h"
#include "base/large_buffer.h"

#define MASK                                                                                                           \
        (IN_CREATE | IN_MODIFY | IN_DELETE | IN_DELETE_SELF | IN_MOVED_TO | IN_MOVED_FROM | IN_MOVE_SELF | IN_ATTRIB)
#define READ_BYTES (16u << 10)

struct watch_dir {
        int wd;
        char *name; /* owned; relative to the watched directory, "" for itself */
};

const char *watch_event_name(enum watch_event ev)
{
        static const char *const names[] = {[WATCH_CREATE] = "EVENT_TYPE_CREATE",
                                            [WATCH_RENAME] = "EVENT_TYPE_RENAME",
                                            [WATCH_CHMOD] = "EVENT_TYPE_CHMOD",
                                            [WATCH_WRITE] = "EVENT_TYPE_WRITE",
                                            [WATCH_REMOVE] = "EVENT_TYPE_REMOVE"};

        return names[ev];
}

static struct str watch_dir_key(const int *wd)
{
        return (struct str){(const char *)wd, sizeof(*wd)};
}

static void watch_dir_free(struct watch_dir *d)
{
        if (d)
                free(d->name);
        free(d);
}

/* "a" and "b" give "a/b"; an empty one gives the other. */
static char *join_names(const char *a, const char *b)
{
        char *out;

        return asprintf(&out, "%s%s%s", a, a[0] && b[0] ? "/" : "", b) < 0 ? NULL : out;
}

void watch_fail(struct watch *w, const char *why)
{
        if (w->has_failed)
                return;
        w->has_failed = true;
        loop_del(&w->io);
        w->on_error(w, why);
}

/* Watch the directory of that name (relative); takes name.  The kernel knows directories, not names: one that is
 * watched already (it was moved) gets the new name. */
static int watch_add_dir(struct watch *w, char *name)
{
        AUTO_FREE char *own = name;
        AUTO_FREE char *path = name ? join_names(w->path, name) : NULL;
        struct watch_dir *d;
        int wd, r;

        if (!path)
                return -ENOMEM;
        wd = inotify_add_watch(w->io.fd, path, MASK | IN_ONLYDIR | (name[0] ? IN_DONT_FOLLOW : 0));
        if (wd < 0)
                return -errno;
        d = map_get(&w->dirs, watch_dir_key(&wd));
        if (d) {
                free(d->name);
                d->name = TAKE_PTR(own);
                return 0;
        }
        d = calloc(1, sizeof(*d));
        r = d ? map_put(&w->dirs, watch_dir_key(&wd), d, NULL) : -ENOMEM;
        if (r < 0) {
                free(d);
                return r;
        }
        *d = (struct watch_dir){.wd = wd, .name = TAKE_PTR(own)};
        return 0;
}

/* Is name below dir, or dir itself?  Then *ret is the rest of name. */
static bool name_is_below(const char *name, const char *dir, const char **ret)
{
        size_t n = strlen(dir);

        if (strncmp(name, dir, n) != 0 || (name[n] && name[n] != '/'))
                return false;
        *ret = name + n + (name[n] == '/');
        return true;
}

static void watch_rename_dirs(struct watch *w, const char *from, const char *to)
{
        const char *rest;

        MAP_EACH (slot, &w->dirs) {
                struct watch_dir *d = slot->value;
                char *name;

                if (!name_is_below(d->name, from, &rest) || !(name = join_names(to, rest)))
                        continue;
                free(d->name);
                d->name = name;
        }
}

/* A directory left the tree: stop watching it and all below it (the kernel answers IN_IGNORED). */
static void watch_forget_dirs(struct watch *w, const char *name)
{
        const char *rest;

        MAP_EACH (slot, &w->dirs) {
                const struct watch_dir *d = slot->value;

                if (d->name[0] && name_is_below(d->name, name, &rest))
                        (void)inotify_rm_watch(w->io.fd, d->wd);
        }
}

/* Errors of one directory in a tree, which do not end the watch: the directory is gone meanwhile, or the kernel
 * closes it even to root. */
static bool dir_can_be_skipped(int r)
{
        return r == -ENOENT || r == -ENOTDIR || r == -EACCES;
}

/* Watch a directory and all below it.  is_new: files found in it count as created. */
static int watch_add_tree(struct watch *w, const char *name, bool is_new)
{
        AUTO_FREE char *path = join_names(w->path, name);
        char *copy = str_dup(str_of(name));
        const struct dirent *e;
        DIR *dir;
        int r = watch_add_dir(w, copy);

        if (r < 0 || !path)
                return r < 0 ? r : -ENOMEM;
        dir = opendir(path);
        if (!dir)
                return dir_can_be_skipped(-errno) ? 0 : -errno;
        while (r == 0 && (e = readdir(dir))) {
                AUTO_FREE char *child = NULL;

                if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
                        continue;
                child = join_names(name, e->d_name);
                if (!child)
                        r = -ENOMEM;
                else if (is_new)
                        w->on_event(w, WATCH_CREATE, child);
                if (r == 0 && e->d_type == DT_DIR)
                        r = watch_add_tree(w, child, is_new);
                if (dir_can_be_skipped(r))
                        r = 0;
        }
        (void)closedir(dir);
        return r;
}

static void watch_finish_move(struct watch *w, const struct inotify_event *ev, const char *name)
{
        AUTO_FREE char *from = TAKE_PTR(w->moved_from);

        if (!from)
                return;
        if (ev->mask & IN_MOVED_TO && ev->cookie == w->moved_cookie)
                watch_rename_dirs(w, from, name);
        else
                watch_forget_dirs(w, from);
}

/* Directories that come and go in a tree. */
static void watch_follow_dir(struct watch *w, const struct inotify_event *ev, const char *name)
{
        bool was_moved_here = w->moved_from && ev->mask & IN_MOVED_TO && ev->cookie == w->moved_cookie;
        int r = 0;

        watch_finish_move(w, ev, name);
        if (!(ev->mask & IN_ISDIR))
                return;
        if (ev->mask & IN_MOVED_FROM) {
                w->moved_from = str_dup(str_of(name));
                w->moved_cookie = ev->cookie;
        } else if (ev->mask & (IN_CREATE | IN_MOVED_TO) && !was_moved_here) {
                r = watch_add_tree(w, name, true);
        }
        if (r < 0 && !dir_can_be_skipped(r))
                watch_fail(w, errno_text(-r));
}

static void watch_tell(struct watch *w, uint32_t mask, const char *name)
{
        static const struct {
                uint32_t bits;
                enum watch_event ev;
        } order[] = {{IN_CREATE | IN_MOVED_TO, WATCH_CREATE},
                     {IN_MOVED_FROM | IN_MOVE_SELF, WATCH_RENAME},
                     {IN_ATTRIB, WATCH_CHMOD},
                     {IN_MODIFY, WATCH_WRITE},
                     {IN_DELETE | IN_DELETE_SELF, WATCH_REMOVE}};

        for (size_t i = 0; i < ARRAY_LEN(order) && !w->has_failed; i++)
                if (mask & order[i].bits)
                        w->on_event(w, order[i].ev, name);
}

static void watch_handle(struct watch *w, const struct inotify_event *ev)
{
        struct watch_dir *d = map_get(&w->dirs, watch_dir_key(&ev->wd));
        AUTO_FREE char *name = NULL;

        if (ev->mask & IN_Q_OVERFLOW) {
                watch_fail(w, "fsnotify: queue or buffer overflow");
                return;
        }
        if (!d)
                return;
        if (ev->mask & IN_IGNORED) {
                watch_dir_free(map_remove(&w->dirs, watch_dir_key(&ev->wd)));
                return;
        }
        if (!ev->len && d->name[0])
                return; /* about a subdirectory itself: the watch of its parent reports the same */
        name = join_names(d->name, ev->len ? ev->name : "");
        if (!name) {
                watch_fail(w, "out of memory");
                return;
        }
        watch_tell(w, ev->mask, name[0] ? name : ".");
        if (w->is_recursive && name[0] && !w->has_failed)
                watch_follow_dir(w, ev, name);
}

/* Read once and handle the events.  false: no more events are there. */
static bool watch_read_events(struct watch *w)
{
        static LARGE_BUFFER char buf[READ_BYTES];
        AUTO_FREE char *copy = NULL; /* handling may drain another watch, which reads into the same memory */
        ssize_t n = read(w->io.fd, buf, sizeof(buf));

        if (n <= 0)
                return false;
        copy = malloc((size_t)n);
        if (!copy) {
                watch_fail(w, "out of memory");
                return false;
        }
        memcpy(copy, buf, (size_t)n);
        for (ssize_t at = 0; at < n && !w->has_failed;) {
                const struct inotify_event *ev = (const void *)(copy + at);

                watch_handle(w, ev);
                at += (ssize_t)(sizeof(*ev) + ev->len);
        }
        return !w->has_failed;
}

void watch_drain(struct watch *w)
{
        while (!w->has_failed && watch_read_events(w))
                ;
}

static void watch_readable(struct io *io, uint32_t events)
{
        (void)events;
        (void)watch_read_events(CONTAINER_OF(io, struct watch, io));
}

void watch_pause(struct watch *w)
{
        loop_del(&w->io);
}

void watch_resume(struct watch *w)
{
        if (!w->io.loop && !w->has_failed)
                (void)loop_add(w->loop, &w->io, EPOLLIN);
}

void watch_free(struct watch *w)
{
        if (!w)
                return;
        loop_del(&w->io);
        close_fd(&w->io.fd);
        MAP_EACH (slot, &w->dirs) {
                watch_dir_free(slot->value);
        }
        map_done(&w->dirs);
        free(w->moved_from);
        free(w->path);
        free(w);
}

static bool is_network_filesystem(const char *path)
{
        static const uint32_t magics[] = {0x6969, 0xff534d42, 0x517b, 0xfe534d42, 0x65735546};
        struct statfs fs;

        if (statfs(path, &fs) < 0)
                return false;
        for (size_t i = 0; i < ARRAY_LEN(magics); i++)
                if ((uint32_t)fs.f_type == magics[i])
                        return true;
        return false;
}

static int watch_check_path(const char *path, bool allow_network, struct fault *f)
{
        struct stat st;

        if (stat(path, &st) < 0)
                return fault_sys(f, errno == ENOENT ? CONNECT_NOT_FOUND : CONNECT_INTERNAL, errno,
                                 errno == ENOENT ? "path %s not found: stat %s" : "error getting path info %s: stat %s",
                                 path, path);
        if (!S_ISDIR(st.st_mode))
                return fault_sys(f, CONNECT_INVALID_ARGUMENT, ENOTDIR, "path %s not a directory", path);
        if (!allow_network && is_network_filesystem(path))
                return fault_set(f, CONNECT_INVALID_ARGUMENT, "cannot watch path on network filesystem: %s", path);
        return 0;
}

int watch_create(struct loop *loop, const char *path, bool is_recursive, bool allow_network, struct watch **ret,
                 struct fault *f)
{
        struct watch *w;
        int r;

        if (watch_check_path(path, allow_network, f) < 0)
                return -1;
        w = calloc(1, sizeof(*w));
        if (!w)
                return fault_set(f, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
        *w = (struct watch){.loop = loop, .is_recursive = is_recursive, .path = str_dup(str_of(path))};
        w->io.on = watch_readable;
        w->io.fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        r = w->io.fd < 0 ? -errno : w->path ? 0 : -ENOMEM;
        if (r == 0)
                r = is_recursive ? watch_add_tree(w, "", false) : watch_add_dir(w, str_dup(STR("")));
        if (r == 0)
                r = loop_add(loop, &w->io, EPOLLIN);
        if (r < 0) {
                watch_free(w);
                return fault_sys(f, CONNECT_INTERNAL, -r, "error adding path %s to watcher", path);
        }
        *ret = w;
        return 0;
}
