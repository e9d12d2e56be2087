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

/* volatile: nothing is synced when the mount goes; its files are thrown away, or synced by the job that keeps them. */
static int set_upper(int fs, const struct overlay *o)
{
        int r = sys_fs_string(fs, "upperdir", o->upper);

        if (r == 0)
                r = sys_fs_string(fs, "workdir", o->work);
        if (r == 0)
                r = sys_fs_flag(fs, "volatile");
        for (size_t i = 0; i < ARRAY_LEN(fixed) && r == 0; i++)
                r = sys_fs_string(fs, fixed[i].key, fixed[i].value);
        if (r == 0 && o->has_uuid)
                r = sys_fs_string(fs, "uuid", "null");
        return r;
}

/* Overlayfs works on the upper directory with the credentials of the process that made the mount.  The host's uid 0 has no
 * place in an idmapped upper directory: with it the mount would silently be read-only. */
static int create(int fs, const struct overlay *o)
{
        int r;

        if (!o->upper)
                return sys_fs_create(fs);
        sys_set_fsids(o->uid, o->uid);
        r = sys_fs_create(fs);
        sys_set_fsids(0, 0);
        return r;
}

/* In the directory that the names are below. */
static int mount_here(int fs, const struct overlay *o, struct err *err)
{
        char why[160];
        int r = sys_fs_string(fs, "lowerdir", o->lower);

        if (r == 0 && o->upper)
                r = set_upper(fs, o);
        if (r < 0)
                return err_sys(err, r, "set overlay options (%s)", sys_fs_why(fs, why, sizeof(why)));
        r = create(fs, o);
        if (r < 0)
                return err_sys(err, r, "make overlay (%s)", sys_fs_why(fs, why, sizeof(why)));
        r = sys_fsmount(fs, o->attrs);
        return r < 0 ? err_sys(err, r, "mount overlay") : r;
}

int overlay_mount(const struct overlay *o, int *ret_mount, struct err *err)
{
        AUTO_CLOSE int fs = sys_fsopen("overlay"), before = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
        int r;

        if (fs < 0)
                return err_sys(err, fs, "open overlay");
        if (before < 0 || fchdir(o->dir) < 0)
                return err_sys(err, -errno, "enter the directory of layers");
        r = mount_here(fs, o, err);
        if (fchdir(before) < 0) {
                if (r >= 0)
                        (void)close(r);
                return err_sys(err, -errno, "leave the directory of layers");
        }
        if (r < 0)
                return r;
        *ret_mount = r;
        return 0;
}
