#include "engine/storage/rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "sys/fs.h"
#include "sys/mnt.h"
#include "sys/proc.h"

#define BOOT_ID ".boot_id"

/* volatile: nothing is synced when the sandbox ends; its files are thrown away, or synced by the job that keeps them.
 * redirect_dir: a directory of a lower layer can be renamed, as on any file system.  uuid: overlayfs notes nothing in the upper
 * directory. */
static const struct {
        const char *key, *value;
} overlay_options[] = {
        {"redirect_dir", "on"}, {"metacopy", "off"}, {"index", "off"}, {"nfs_export", "off"}, {"uuid", "null"},
};

void rootfs_init(struct rootfs *r)
{
        r->mount = -1;
        r->later_count = 0;
}

void rootfs_done(struct rootfs *r)
{
        close_fd(&r->mount);
        while (r->later_count > 0)
                close_fd(&r->later[--r->later_count]);
}

/* A detached idmapped clone, which is kept in r. */
static int clone_idmapped(struct rootfs *r, int dir, int userns)
{
        int tree = sys_clone_tree(dir, ""), e;

        if (tree < 0)
                return tree;
        r->later[r->later_count++] = tree;
        e = sys_mount_idmap(tree, userns);
        return e < 0 ? e : tree;
}

static int add_layers(struct rootfs *r, int fs, const struct rootfs_dirs *d, const struct plan_create *p, int userns,
                      struct err *err)
{
        for (size_t i = p->layer_count; i-- > 0;) { /* the kernel wants the topmost first */
                int at = layer_id_is_sealed(p->layers[i]) ? d->writable.sealed : d->layers, tree;
                AUTO_CLOSE int dir = sys_open_beneath(at, p->layers[i], O_PATH | O_DIRECTORY, 0);

                if (dir < 0)
                        return err_sys(err, dir, "layer '%s'", p->layers[i]);
                tree = clone_idmapped(r, dir, userns);
                if (tree >= 0)
                        tree = sys_fs_fd(fs, "lowerdir+", tree);
                if (tree < 0)
                        return err_sys(err, tree, "add layer '%s'", p->layers[i]);
        }
        return 0;
}

static enum writable_use find_use(const struct rootfs_dirs *d, const struct plan_create *p)
{
        return d->is_ahead ? WRITABLE_AHEAD : p->is_upper_kept ? WRITABLE_KEPT : WRITABLE_NEW;
}

static int add_upper(struct rootfs *r, int fs, const struct rootfs_dirs *d, const struct plan_create *p, int userns,
                     struct err *err)
{
        struct writable_dirs w;
        int e;

        if ((e = writable_prepare(&d->writable, find_use(d, p), err)) < 0 ||
            (e = writable_open(&d->writable, userns, &w, err)) < 0)
                return e;
        r->later[r->later_count++] = w.mount;
        e = sys_fs_fd(fs, "upperdir", w.upper);
        if (e >= 0)
                e = sys_fs_fd(fs, "workdir", w.work);
        close_fd(&w.upper);
        close_fd(&w.work);
        return e < 0 ? err_sys(err, e, "add upper directory") : 0;
}

static int set_options(int fs, struct err *err)
{
        int r = sys_fs_flag(fs, "volatile");

        for (size_t i = 0; i < ARRAY_LEN(overlay_options) && r == 0; i++)
                r = sys_fs_string(fs, overlay_options[i].key, overlay_options[i].value);
        return r < 0 ? err_sys(err, r, "set overlay options") : 0;
}

/* Overlayfs works on the upper directory with the credentials of the process that made the mount.  The host's uid 0 has no place
 * in an idmapped upper directory: with it the mount would silently be read-only. */
static int create_overlay(struct rootfs *r, int fs, uint32_t uid_base, struct err *err)
{
        char why[160];
        int e;

        sys_set_fsids(uid_base, uid_base);
        e = sys_fs_create(fs);
        sys_set_fsids(0, 0);
        if (e < 0)
                return err_sys(err, e, "make overlay (%s)", sys_fs_why(fs, why, sizeof(why)));
        e = sys_fsmount(fs, MOUNT_ATTR_NODEV);
        if (e < 0)
                return err_sys(err, e, "mount overlay");
        r->mount = e;
        return 0;
}

/* When the kernel cannot make a directory in the work directory, the mount is silently read-only.  Most likely the disk is full:
 * the storage is asked. */
static int check_writable(const struct rootfs *r, const struct rootfs_dirs *d, struct err *err)
{
        struct statvfs st;
        int e;

        if (fstatvfs(r->mount, &st) < 0 || !(st.f_flag & ST_RDONLY))
                return 0;
        e = writable_try_room(&d->writable);
        return err_sys(err, e < 0 ? e : -EROFS, "make upper directory");
}

static int hang_mounts(struct rootfs *r, const struct rootfs_mounts *m, struct err *err)
{
        const struct {
                const char *name;
                int mount;
        } mounts[] = {{"proc", m->proc}, {"sys", m->sys}, {"dev", m->dev}};

        for (size_t i = 0; i < ARRAY_LEN(mounts); i++) {
                const char *name = mounts[i].name;
                int mount = mounts[i].mount, e = sys_move_mount(mount, r->mount, name);

                if (e == -ENOENT) { /* the layers have no such directory */
                        sys_set_fsids(m->uid_base, m->uid_base);
                        e = mkdirat(r->mount, name, 0755) < 0 ? -errno : 0;
                        sys_set_fsids(0, 0);
                        if (e == 0)
                                e = sys_move_mount(mount, r->mount, name);
                }
                if (e < 0)
                        return err_sys(err, e, "hang up /%s", name);
        }
        return 0;
}

int rootfs_overlay(struct rootfs *r, const struct rootfs_dirs *d, const struct plan_create *p, int userns,
                   uint32_t uid_base, struct err *err)
{
        AUTO_CLOSE int fs = sys_fsopen("overlay");
        int e;

        rootfs_init(r);
        if (fs < 0)
                return err_sys(err, fs, "open overlay");
        if ((e = add_layers(r, fs, d, p, userns, err)) < 0 || (e = add_upper(r, fs, d, p, userns, err)) < 0 ||
            (e = set_options(fs, err)) < 0 || (e = create_overlay(r, fs, uid_base, err)) < 0 ||
            (e = check_writable(r, d, err)) < 0)
                rootfs_done(r);
        return e;
}

int rootfs_build(struct rootfs *r, const struct rootfs_dirs *d, const struct plan_create *p,
                 const struct rootfs_mounts *m, struct err *err)
{
        int e = rootfs_overlay(r, d, p, m->userns, m->uid_base, err);

        if (e == 0 && (e = hang_mounts(r, m, err)) < 0)
                rootfs_done(r);
        return e;
}

static int write_boot_id(int run)
{
        AUTO_CLOSE int fd = -1;
        char text[UUID_MAX];

        uuid_make(text);
        text[UUID_MAX - 1] = '\n';
        if (unlinkat(run, BOOT_ID, 0) < 0 && errno != ENOENT)
                return -errno;
        fd = openat(run, BOOT_ID, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
        return fd < 0 || write(fd, text, UUID_MAX) != UUID_MAX ? -EIO : 0;
}

void rootfs_renew_boot_id(struct rootfs *r, uint32_t uid_base)
{
        AUTO_CLOSE int run = -1, file = -1;
        int e;

        sys_set_fsids(uid_base, uid_base);
        run = sys_open_dir(r->mount, "run");
        e = run < 0 ? run : write_boot_id(run);
        sys_set_fsids(0, 0);
        if (e == 0)
                e = file = sys_clone_tree(r->mount, "run/" BOOT_ID);
        if (e >= 0)
                e = sys_move_mount(file, r->mount, "proc/sys/kernel/random/boot_id");
        if (e < 0)
                log_warn("boot_id.kept", "error=\"%s\"",
                         strerror(-e)); /* the host's boot id is no secret, and nothing depends on it */
}
