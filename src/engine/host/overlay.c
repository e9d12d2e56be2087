#include "engine/host/overlay.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "sys/mnt.h"
#include "sys/proc.h"

struct overlay_option {
        const char *key, *value;
};

/* redirect_dir: a directory of a lower layer can be renamed, as on any file system. */
static const struct overlay_option fixed[] = {
        {"redirect_dir", "on"},
        {"metacopy", "off"},
        {"index", "off"},
        {"nfs_export", "off"},
};

static int set_fds(int fs, const struct overlay_fds *d)
{
        int r = 0;

        for (size_t i = 0; i < d->lower_count && r == 0; i++)
                r = sys_fs_fd(fs, "lowerdir+", d->lower[i]);
        if (r == 0)
                r = sys_fs_fd(fs, "upperdir", d->upper);
        return r == 0 ? sys_fs_fd(fs, "workdir", d->work) : r;
}

static int set_names(int fs, const struct overlay *o)
{
        int r = sys_fs_string(fs, "lowerdir", o->lower);

        if (r == 0 && o->upper)
                r = sys_fs_string(fs, "upperdir", o->upper);
        return r == 0 && o->upper ? sys_fs_string(fs, "workdir", o->work) : r;
}

static bool has_upper(const struct overlay *o)
{
        return o->fds || o->upper;
}

/* Overlayfs works on the upper directory with the credentials of the process that made the mount.  The host's uid 0 has no
 * place in an idmapped upper directory: with it the mount would silently be read-only. */
static int create(int fs, const struct overlay *o)
{
        int r;

        if (!has_upper(o))
                return sys_fs_create(fs);
        sys_set_fsids(o->uid, o->uid);
        r = sys_fs_create(fs);
        sys_set_fsids(0, 0);
        return r;
}

/* With names: in the directory that they are below. */
static int mount_here(int fs, const struct overlay *o, struct err *err)
{
        char why[160];
        int r = o->fds ? set_fds(fs, o->fds) : set_names(fs, o);

        if (r < 0)
                return err_sys(err, r, "set layers (%s)", sys_fs_why(fs, why, sizeof(why)));
        r = create(fs, o);
        if (r < 0)
                return err_sys(err, r, "make overlay (%s)", sys_fs_why(fs, why, sizeof(why)));
        r = sys_fsmount(fs, o->attrs);
        return r < 0 ? err_sys(err, r, "mount overlay") : r;
}

static int mount_by_name(int fs, const struct overlay *o, struct err *err)
{
        AUTO_CLOSE int before = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
        int r;

        if (before < 0 || fchdir(o->dir) < 0)
                return err_sys(err, -errno, "enter the directory of layers");
        r = mount_here(fs, o, err);
        if (fchdir(before) < 0) {
                if (r >= 0)
                        (void)close(r);
                return err_sys(err, -errno, "leave the directory of layers");
        }
        return r;
}

/* volatile: nothing is synced when the mount goes; its files are thrown away, or synced by the job that keeps them. */
static int set_options(int fs, bool has_uuid)
{
        int r = sys_fs_flag(fs, "volatile");

        for (size_t i = 0; i < ARRAY_LEN(fixed) && r == 0; i++)
                r = sys_fs_string(fs, fixed[i].key, fixed[i].value);
        return r == 0 && has_uuid ? sys_fs_string(fs, "uuid", "null") : r;
}

static int prepare(bool with_upper, bool has_uuid, struct err *err)
{
        AUTO_CLOSE int fs = sys_fsopen("overlay");
        char why[160];
        int r;

        if (fs < 0)
                return err_sys(err, fs, "open overlay");
        r = with_upper ? set_options(fs, has_uuid) : 0;
        return r < 0 ? err_sys(err, r, "set overlay options (%s)", sys_fs_why(fs, why, sizeof(why))) : TAKE_FD(fs);
}

int overlay_prepare(bool has_uuid, int *ret_prepared, struct err *err)
{
        int r = prepare(true, has_uuid, err);

        if (r < 0)
                return r;
        *ret_prepared = r;
        return 0;
}

int overlay_mount(const struct overlay *o, int *ret_mount, struct err *err)
{
        AUTO_CLOSE int own = o->prepared ? -1 : prepare(has_upper(o), o->has_uuid, err);
        int fs = o->prepared ? o->prepared : own, r = fs;

        if (fs >= 0)
                r = o->fds ? mount_here(fs, o, err) : mount_by_name(fs, o, err);
        if (r < 0)
                return r;
        *ret_mount = r;
        return 0;
}
