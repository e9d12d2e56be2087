#include "engine/host/devices.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "engine/host/overlay.h"
#include "sys/fs.h"
#include "sys/mnt.h"

#define BINARY "envd" /* the directory that has it */

static const struct {
        const char *name;
        unsigned major, minor;
} nodes[] = {
        {"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0},
};

static const struct {
        const char *name, *to;
} links[] = {
        {"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"},
        {"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"},         {"core", "/proc/kcore"},
};

static const char *const dirs[] = {"pts", "shm", "mqueue"};

static int copy_binary(int from, int dev)
{
        AUTO_CLOSE int to = openat(dev, DEVICES_ENVD, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0555);
        off_t at = 0;
        struct stat st;

        if (to < 0 || fstat(from, &st) < 0)
                return -errno;
        while (at < st.st_size)
                if (sendfile(to, from, &at, (size_t)(st.st_size - at)) <= 0)
                        return errno ? -errno : -EIO;
        return fchmod(to, 0555) < 0 ? -errno : 0;
}

static int own(int dir, const char *name, uint32_t uid)
{
        return fchownat(dir, name, uid, uid, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int fill(int dir, uint32_t uid)
{
        int r = own(dir, ".", uid);

        for (size_t i = 0; i < ARRAY_LEN(nodes) && r == 0; i++)
                r = mknodat(dir, nodes[i].name, S_IFCHR | 0666, makedev(nodes[i].major, nodes[i].minor)) < 0 ||
                                    fchmodat(dir, nodes[i].name, 0666, 0) < 0
                            ? -errno
                            : own(dir, nodes[i].name, uid);
        for (size_t i = 0; i < ARRAY_LEN(links) && r == 0; i++)
                r = symlinkat(links[i].to, dir, links[i].name) < 0 ? -errno : own(dir, links[i].name, uid);
        for (size_t i = 0; i < ARRAY_LEN(dirs) && r == 0; i++) {
                r = sys_make_dir(dir, dirs[i], 0755);
                if (r == 0)
                        r = own(dir, dirs[i], uid);
        }
        return r;
}

/* Under another name first: several processes may restore sandboxes, and each sees a directory that is complete or none. */
static int make_range(int files, const char *name, uint32_t uid)
{
        char fresh[32] = ".new-";
        AUTO_CLOSE int dir = -1;
        int r;

        if (faccessat(files, name, F_OK, 0) == 0)
                return 0;
        random_id(fresh + strlen(fresh), 12);
        r = sys_make_dir(files, fresh, 0755);
        if (r == 0)
                r = dir = sys_open_dir(files, fresh);
        if (r >= 0)
                r = fill(dir, uid);
        if (r == 0 && renameat2(files, fresh, files, name, RENAME_NOREPLACE) < 0 && errno != EEXIST)
                r = -errno;
        (void)sys_remove_tree(files, fresh); /* if another process was faster, or this one failed */
        return r;
}

int devices_mount(const struct devices *d, uint32_t uid_base, int *ret_mount, struct err *err)
{
        AUTO_CLOSE int dir = open(d->at, O_PATH | O_DIRECTORY | O_CLOEXEC);
        char name[16], lower[sizeof(name) + sizeof(BINARY)];
        struct overlay o = {.dir = dir, .lower = lower, .attrs = MOUNT_ATTR_NOSUID | MOUNT_ATTR_RDONLY};
        int r;

        if (dir < 0)
                return err_sys(err, -errno, "open %s", d->at);
        (void)snprintf(name, sizeof(name), "%u", uid_base);
        (void)snprintf(lower, sizeof(lower), "%s:" BINARY, name);
        r = make_range(d->files, name, uid_base);
        if (r < 0)
                return err_sys(err, r, "make devices");
        r = overlay_mount(&o, ret_mount, err);
        return r < 0 ? err_wrap(err, "/dev") : 0;
}

/* ------------------------------------------------------------- for all of them */

static int mount_files(void)
{
        AUTO_CLOSE int fs = sys_fsopen("tmpfs");
        int r = fs < 0 ? fs : sys_fs_string(fs, "mode", "755");

        if (r == 0)
                r = sys_fs_string(fs, "size", "64m");
        if (r == 0)
                r = sys_fs_create(fs);
        return r < 0 ? r : sys_fsmount(fs, MOUNT_ATTR_NOSUID);
}

static int add_binary(int files, int envd_binary)
{
        AUTO_CLOSE int dir = -1;
        int r = sys_make_dir(files, BINARY, 0755);

        if (r == 0)
                r = dir = sys_open_dir(files, BINARY);
        return r < 0 ? r : copy_binary(envd_binary, dir);
}

int devices_open(struct devices *d, int envd_binary, const char *at, struct err *err)
{
        AUTO_CLOSE int mount = mount_files(), files = -1;
        int r = mount < 0 ? mount : add_binary(mount, envd_binary);

        if (r == 0)
                r = sys_move_mount(mount, AT_FDCWD, at);
        if (r == 0)
                r = files = sys_clone_tree(mount, "");
        if (r >= 0)
                r = sys_mount_attrs(mount, MOUNT_ATTR_RDONLY);
        if (r < 0)
                return err_sys(err, r, "make tmpfs for /dev");
        *d = (struct devices){.at = at, .files = TAKE_FD(files)};
        return 0;
}

void devices_close(struct devices *d)
{
        close_fd(&d->files);
}
