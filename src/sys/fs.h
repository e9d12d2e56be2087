/* fs.h - files and directories relative to an fd: small files, atomic replacement, opening without leaving, removal.
 *
 * Everything returns >= 0 or a negative errno.  Every fd is close-on-exec. */
#pragma once
#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* openat2 that cannot leave `dir` and follows no symbolic link at all. */
int sys_open_beneath(int dir, const char *path, int flags, mode_t mode);
int sys_open_dir(int dir, const char *path);              /* O_DIRECTORY, below `dir` as above */
int sys_make_dir(int dir, const char *name, mode_t mode); /* exact mode whatever the umask; fine when it exists */

/* What is in `dir`, from the first entry on; NULL: errno says why.  sys_list_next() leaves "." and ".." out. */
DIR *sys_list(int dir);
struct dirent *sys_list_next(DIR *d);
void sys_list_end_p(DIR **d); /* for AUTO_DIR */
#define AUTO_DIR __attribute__((cleanup(sys_list_end_p)))

/* Ask the file system to place each new directory in `dir` apart from the others (ext4's top directory flag): it would
 * else look for free inodes where thousands were just given back, and must not take those at once.  -ENOTTY and the
 * like: it knows no such wish. */
int sys_spread_dirs(int dir);

int sys_write_at(int dir, const char *path, const char *text); /* one write to an existing file (proc, sys, cgroup) */
/* The whole file as text into out (NUL added); its length, -E2BIG when it does not fit. */
ssize_t sys_read_at(int dir, const char *path, char *out, size_t size);
/* Write beside and rename over: readers see the old content or the new.  Exact mode whatever the umask. */
int sys_replace_at(int dir, const char *name, const void *p, size_t n, mode_t mode);
/* Where there is no room for that (-ENOSPC, -EDQUOT): over what is there, which needs none, and `pad` up to its end.
 * On disk when it returns. */
int sys_overwrite_at(int dir, const char *name, const void *p, size_t n, char pad);
bool sys_is_full(int r); /* is that one of these two? */
/* As sys_replace_at(), and on disk when it returns. */
int sys_replace_durably_at(int dir, const char *name, const void *p, size_t n, mode_t mode);

/* Remove `name` below dir with everything in it, without following links or crossing into what is not ours to name.
 * Depth is bounded: what lies deeper is moved up next to `name` first.  0 also when it is not there. */
int sys_remove_tree(int dir, const char *name);
