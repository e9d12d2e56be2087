#include "engine/host/devices.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/err.h"
#include "sys/fs.h"
#include "sys/mnt.h"

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

static int fill(int dev, int envd_binary)
{
        for (size_t i = 0; i < ARRAY_LEN(nodes); i++)
                if (mknodat(dev, nodes[i].name, S_IFCHR | 0666, makedev(nodes[i].major, nodes[i].minor)) < 0 ||
                    fchmodat(dev, nodes[i].name, 0666, 0) < 0)
                        return -errno;
        for (size_t i = 0; i < ARRAY_LEN(links); i++)
                if (symlinkat(links[i].to, dev, links[i].name) < 0)
                        return -errno;
        for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
                int r = sys_make_dir(dev, dirs[i], 0755);

                if (r < 0)
                        return r;
        }
        return copy_binary(envd_binary, dev);
}

int devices_make(int envd_binary, int *ret_mount, struct err *err)
{
        AUTO_CLOSE int fs = sys_fsopen("tmpfs"), dev = -1;
        int r;

        if (fs < 0)
                return err_sys(err, fs, "open tmpfs");
        if ((r = sys_fs_string(fs, "mode", "755")) < 0 || (r = sys_fs_string(fs, "size", "64m")) < 0 ||
            (r = sys_fs_create(fs)) < 0)
                return err_sys(err, r, "make tmpfs for /dev");
        dev = sys_fsmount(fs, 0);
        if (dev < 0)
                return err_sys(err, dev, "mount tmpfs for /dev");
        r = fill(dev, envd_binary);
        if (r == 0)
                r = sys_mount_attrs(dev, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID);
        if (r < 0)
                return err_sys(err, r, "fill /dev");
        *ret_mount = TAKE_FD(dev);
        return 0;
}
