#include "sys/mnt.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int sys_fsopen(const char *type)
{
        int fd = fsopen(type, FSOPEN_CLOEXEC);

        return fd < 0 ? -errno : fd;
}

int sys_fs_string(int fs, const char *key, const char *value)
{
        return fsconfig(fs, FSCONFIG_SET_STRING, key, value, 0) < 0 ? -errno : 0;
}

int sys_fs_flag(int fs, const char *key)
{
        return fsconfig(fs, FSCONFIG_SET_FLAG, key, NULL, 0) < 0 ? -errno : 0;
}

int sys_fs_fd(int fs, const char *key, int fd)
{
        return fsconfig(fs, FSCONFIG_SET_FD, key, NULL, fd) < 0 ? -errno : 0;
}

int sys_fs_create(int fs)
{
        return fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0 ? -errno : 0;
}

int sys_fsmount(int fs, unsigned attrs)
{
        int fd = fsmount(fs, FSMOUNT_CLOEXEC, attrs);

        return fd < 0 ? -errno : fd;
}

const char *sys_fs_why(int fs, char *out, unsigned size)
{
        ssize_t n = read(fs, out, size - 1);

        out[n > 0 ? n : 0] = '\0';
        out[strcspn(out, "\n")] = '\0';
        return out;
}

int sys_clone_tree(int dir, const char *path)
{
        int fd = open_tree(dir, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW);

        return fd < 0 ? -errno : fd;
}

int sys_clone_trees(const char *path)
{
        int fd = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);

        return fd < 0 ? -errno : fd;
}

int sys_mount_attrs(int mount, uint64_t set)
{
        struct mount_attr a = {.attr_set = set};

        return mount_setattr(mount, "", AT_EMPTY_PATH, &a, sizeof(a)) < 0 ? -errno : 0;
}

int sys_mount_attrs_all(int mount, uint64_t set)
{
        struct mount_attr a = {.attr_set = set};

        return mount_setattr(mount, "", AT_EMPTY_PATH | AT_RECURSIVE, &a, sizeof(a)) < 0 ? -errno : 0;
}

int sys_mount_idmap(int mount, int userns)
{
        struct mount_attr a = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)userns};

        return mount_setattr(mount, "", AT_EMPTY_PATH, &a, sizeof(a)) < 0 ? -errno : 0;
}

int sys_move_mount(int mount, int dir, const char *to)
{
        return move_mount(mount, "", dir, to, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno : 0;
}

int sys_pivot_into(const char *path)
{
        if (chdir(path) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0)
                return -errno;
        return chdir("/") < 0 ? -errno : 0;
}

#define PROC_ATTRS (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)
#define CHILD_STACK 16384

int sys_mount_proc_by_option(int pidns)
{
        int fs = sys_fsopen("proc"), r = fs < 0 ? fs : sys_fs_fd(fs, "pidns", pidns);

        if (r == 0)
                r = sys_fs_create(fs);
        if (r == 0)
                r = sys_fsmount(fs, PROC_ATTRS);
        if (fs >= 0)
                (void)close(fs);
        return r;
}

/* In a child that has our memory and our descriptors. */
static int mount_own_proc(void *arg)
{
        int *ret = arg, fs = sys_fsopen("proc"), r = fs < 0 ? fs : sys_fs_create(fs);

        if (r == 0)
                r = sys_fsmount(fs, PROC_ATTRS);
        if (fs >= 0)
                (void)close(fs);
        *ret = r;
        return 0;
}

/* The child borrows our stack's memory while we stand still, and sends no signal when it ends. */
int sys_mount_proc_by_child(int pidns, int own)
{
        char stack[CHILD_STACK] __attribute__((aligned(16)));
        int made = -ECHILD, r = 0;
        pid_t pid;

        if (setns(pidns, CLONE_NEWPID) < 0)
                return -errno;
        pid = clone(mount_own_proc, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | CLONE_FILES, &made);
        if (pid < 0)
                r = -errno;
        if (setns(own, CLONE_NEWPID) < 0)
                r = -errno;
        if (pid > 0)
                (void)waitpid(pid, NULL, __WALL);
        if (r < 0 && made >= 0)
                (void)close(made);
        return r < 0 ? r : made;
}
