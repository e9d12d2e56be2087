/* mnt.h - the mount API by file descriptors: thin, negative errno, close-on-exec.
 * Not named mount.h: <sys/mount.h> would find it. */
#pragma once
#include <stdint.h>
#include <sys/mount.h>

int sys_fsopen(const char *type);
int sys_fs_string(int fs, const char *key, const char *value);
int sys_fs_flag(int fs, const char *key);
int sys_fs_fd(int fs, const char *key, int fd);
int sys_fs_create(int fs); /* makes the superblock from what was set */
/* A detached mount of it; it disappears with its last fd unless it was moved somewhere. */
int sys_fsmount(int fs, unsigned attrs /* MOUNT_ATTR_* */);
/* What the kernel says about the last failure of fs ("overlay: ..."), for messages; "" when it says nothing. */
const char *sys_fs_why(int fs, char *out, unsigned size);

int sys_clone_tree(int dir, const char *path); /* detached copy of the mount at path ("" for dir itself) */
int sys_clone_trees(const char *path);         /* the same with every mount below it */
/* Both copy only what is attached in the caller's mount namespace: kernels before 6.15 copy nothing else. */
int sys_mount_attrs(int mount, uint64_t set);           /* MOUNT_ATTR_* */
int sys_mount_attrs_all(int mount, uint64_t set);       /* and on every mount below it */
int sys_mount_idmap(int mount, int userns);             /* owners on disk 0..n appear as the namespace's 0..n */
int sys_move_mount(int mount, int dir, const char *to); /* the last part of `to` is not followed if a link */
int sys_pivot_into(const char *path);                   /* path (a mount) becomes "/", the old root is detached */

/* proc of another PID namespace, as a detached mount.  By the option pidns=, which Linux has since 6.17; or by a process
 * that is born in that namespace, on any kernel, in four times as long.  own: the caller's PID namespace, to which it
 * returns; in between no other thread may fork. */
int sys_mount_proc_by_option(int pidns);
int sys_mount_proc_by_child(int pidns, int own);
