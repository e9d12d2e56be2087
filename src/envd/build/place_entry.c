/* place_entry.c - one entry: how it is made, what becomes of what is in its place, owner and mode. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "envd/build/place.h"
#include "sys/fs.h"

#define LAST_ID 65535u
#define NOBODY 65534u

/* ---- owner and mode ---- */

static uint32_t id_of(struct place *p, const struct place_rules *rules, uint32_t given, uint32_t ruled,
                      const char *path)
{
        if (rules->has_owner)
                return ruled;
        if (given <= LAST_ID)
                return given;
        place_note(p, "'/%s' belongs to %u, which no sandbox has: it belongs to %u now", path, given, NOBODY);
        return NOBODY;
}

static uint32_t mode_of(const struct place *p, const struct tar_entry *e)
{
        return p->rules.has_mode ? p->rules.mode : e->mode;
}

static int give_to_owner(struct place *p, const struct tar_entry *e, const char *base, const char *path)
{
        uint32_t uid = id_of(p, &p->rules, e->uid, p->rules.uid, path);
        uint32_t gid = id_of(p, &p->rules, e->gid, p->rules.gid, path);

        return fchownat(p->parent, base, uid, gid, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* Of overlays and security modules: they would mean something to the machine, not to the image. */
static bool xattr_is_allowed(struct str name)
{
        return str_starts(name, "user.") && !str_starts(name, "user.overlay.");
}

static void set_xattrs(struct place *p, const struct tar_entry *e, const char *base, const char *path)
{
        char file[64 + NAME_MAX];

        for (size_t i = 0; p->rules.keeps_xattrs && i < e->xattr_count; i++) {
                char name[TAR_PART_MAX + 1];

                if (!xattr_is_allowed(e->xattrs[i].name)) {
                        place_note(p, "'/%s': the attribute %.*s is left out", path, STR_ARG(e->xattrs[i].name));
                        continue;
                }
                (void)snprintf(name, sizeof(name), "%.*s", STR_ARG(e->xattrs[i].name));
                (void)snprintf(file, sizeof(file), "/proc/self/fd/%d/%s", p->parent, base);
                if (lsetxattr(file, name, e->xattrs[i].value.p, e->xattrs[i].value.n, 0) < 0)
                        place_note(p, "'/%s': the attribute %s cannot be set", path, name);
        }
}

static int set_time(const struct place *p, const struct tar_entry *e, const char *base)
{
        struct timespec times[2] = {{e->mtime_s, e->mtime_ns}, {e->mtime_s, e->mtime_ns}};

        if (p->rules.keeps_times)
                (void)utimensat(p->parent, base, times, AT_SYMLINK_NOFOLLOW); /* what does not fit is left as it is */
        return 0;
}

/* ---- what is there already ---- */

/* Make room for something that is no directory. */
static int make_room(struct place *p, const char *base, const char *path, struct err *err)
{
        struct stat st;
        int r = 0;

        if (fstatat(p->parent, base, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : err_sys(err, -errno, "'/%.150s'", path);
        if (!S_ISDIR(st.st_mode))
                r = unlinkat(p->parent, base, 0) < 0 ? -errno : 0;
        else if (!p->rules.replaces_dirs)
                return err_set(err, ERR_INVALID, "'/%.200s' is a directory, and would be replaced by a file", path);
        else if (st.st_dev != p->root_dev)
                r = -EBUSY;
        else
                r = sys_remove_tree(p->parent, base);
        if (r == -EBUSY) {
                place_note(p, "'/%s' is in use: left as it is", path);
                return 1;
        }
        return r < 0 ? err_sys(err, r, "replace '/%.150s'", path) : 0;
}

/* ---- kinds ---- */

/* 1: a directory is there, and stays. */
static int find_dir(const struct place *p, const char *base)
{
        struct stat st;
        int flags = p->rules.keeps_dirs ? 0 : AT_SYMLINK_NOFOLLOW;

        return fstatat(p->parent, base, &st, flags) == 0 && S_ISDIR(st.st_mode);
}

/* /proc and its like: another file system is mounted there, and its root keeps owner and mode. */
static bool is_mounted_on(const struct place *p, const char *base)
{
        struct stat at, parent;

        return p->rules.stays_on_root && fstatat(p->parent, base, &at, AT_SYMLINK_NOFOLLOW) == 0 &&
               fstat(p->parent, &parent) == 0 && at.st_dev != parent.st_dev;
}

static int place_dir(struct place *p, const struct tar_entry *e, const char *base, const char *path, struct err *err)
{
        bool is_there;
        int r;

        if (!base[0]) /* "/" itself: its owner and mode belong to the sandbox */
                return 0;
        is_there = find_dir(p, base);
        if (is_there && (p->rules.keeps_dirs || is_mounted_on(p, base)))
                return 0;
        if (!is_there && mkdirat(p->parent, base, 0755) < 0) {
                if (errno != EEXIST)
                        return err_sys(err, -errno, "make '/%.150s'", path);
                r = make_room(p, base, path, err);
                if (r)
                        return r < 0 ? r : 0;
                if (mkdirat(p->parent, base, 0755) < 0)
                        return err_sys(err, -errno, "make '/%.150s'", path);
        }
        r = give_to_owner(p, e, base, path);
        if (r == 0 && fchmodat(p->parent, base, mode_of(p, e), 0) < 0)
                r = -errno;
        if (r < 0)
                return err_sys(err, r, "set owner and mode of '/%.150s'", path);
        set_xattrs(p, e, base, path);
        if (p->rules.keeps_times && place_keep_time(p, path, e) < 0)
                return err_sys(err, -ENOMEM, "'/%.150s'", path);
        return 0;
}

static int place_symlink(struct place *p, const struct tar_entry *e, const char *base, const char *path,
                         struct err *err)
{
        int r = make_room(p, base, path, err);

        if (r)
                return r < 0 ? r : 0;
        if (symlinkat(e->link, p->parent, base) < 0)
                return err_sys(err, -errno, "make the link '/%.150s'", path);
        r = give_to_owner(p, e, base, path);
        if (r == 0)
                r = map_put(&p->links, str_of(path), p, NULL);
        if (r < 0)
                return err_sys(err, r, "make the link '/%.150s'", path);
        return set_time(p, e, base);
}

/* e->link is a path as `path` is.  The file must be there already, and must be no link to another place. */
static int place_hard_link(struct place *p, const struct tar_entry *e, const char *path, struct err *err)
{
        AUTO_CLOSE int target = -1;
        const char *base;
        struct stat st;
        char proc[32];
        int r = place_parent(p, e->link, &base, err);

        if (r)
                return r < 0 ? r : 0;
        target = openat(p->parent, base, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (target < 0 || fstat(target, &st) < 0 || S_ISDIR(st.st_mode))
                return err_set(err, ERR_INVALID, "the hard link '/%.100s' leads to '/%.100s', which is no file", path,
                               e->link);
        r = place_parent(p, path, &base, err);
        if (r == 0)
                r = make_room(p, base, path, err);
        if (r)
                return r < 0 ? r : 0;
        (void)snprintf(proc, sizeof(proc), "/proc/self/fd/%d", target);
        if (S_ISLNK(st.st_mode))
                r = linkat(target, "", p->parent, base, AT_EMPTY_PATH) < 0 ? -errno : 0;
        else
                r = linkat(AT_FDCWD, proc, p->parent, base, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
        return r < 0 ? err_sys(err, r, "make the hard link '/%.150s'", path) : 0;
}

static int place_fifo(struct place *p, const struct tar_entry *e, const char *base, const char *path, struct err *err)
{
        int r = make_room(p, base, path, err);

        if (r)
                return r < 0 ? r : 0;
        if (mkfifoat(p->parent, base, 0600) < 0)
                return err_sys(err, -errno, "make the pipe '/%.150s'", path);
        r = give_to_owner(p, e, base, path);
        if (r == 0 && fchmodat(p->parent, base, mode_of(p, e), 0) < 0)
                r = -errno;
        return r < 0 ? err_sys(err, r, "make the pipe '/%.150s'", path) : set_time(p, e, base);
}

/* ---- entries ---- */

/* Anything that may turn a directory into something else. */
static bool is_no_dir(const struct tar_entry *e)
{
        return e->type == TAR_SYMLINK || e->type == TAR_HARD_LINK;
}

static int place_kind(struct place *p, const struct tar_entry *e, const char *path, struct err *err)
{
        const char *base;
        int r;

        if (e->type == TAR_HARD_LINK)
                return place_hard_link(p, e, path, err);
        r = place_parent(p, path, &base, err);
        if (r)
                return r < 0 ? r : 0;
        switch (e->type) {
        case TAR_FILE: return place_file_begin(p, e, base, path, err);
        case TAR_DIRECTORY: return place_dir(p, e, base, path, err);
        case TAR_SYMLINK: return place_symlink(p, e, base, path, err);
        case TAR_FIFO: return place_fifo(p, e, base, path, err);
        default: place_note(p, "'/%s' is a device: left out", path); return 0;
        }
}

int place_begin(struct place *p, const struct tar_entry *e, const char *path, struct err *err)
{
        int r;

        if (!path[0] && e->type != TAR_DIRECTORY)
                return err_set(err, ERR_INVALID, "an entry without a name is no directory");
        p->entries++;
        if (map_remove(&p->links, str_of(path)))
                place_forget_parent(p);
        r = place_kind(p, e, path, err);
        if (r < 0)
                return r;
        if (is_no_dir(e))
                place_forget_parent(p);
        r = place_remember(p, path);
        return r < 0 ? err_sys(err, r, "'/%.150s'", path) : 0;
}

/* place_file.c ends files; others were complete when they began. */
int place_room_for_file(struct place *p, const char *base, const char *path, struct err *err)
{
        return make_room(p, base, path, err);
}

int place_file_owner(struct place *p, const struct tar_entry *e, int fd, const char *path)
{
        uint32_t uid = id_of(p, &p->rules, e->uid, p->rules.uid, path);
        uint32_t gid = id_of(p, &p->rules, e->gid, p->rules.gid, path);

        /* A new file is root's; its group is that of a directory with the bit for it. */
        if ((uid || gid || p->parent_is_setgid) && fchown(fd, uid, gid) < 0)
                return -errno;
        return fchmod(fd, mode_of(p, e)) < 0 ? -errno : 0;
}

void place_file_xattrs(struct place *p, const struct tar_entry *e, const char *base, const char *path)
{
        set_xattrs(p, e, base, path);
}
