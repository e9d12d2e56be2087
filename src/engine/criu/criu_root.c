#include "engine/criu/criu_root.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "engine/criu/criu.h"
#include "sys/mnt.h"

#define AT "/run" /* exists everywhere, and is not needed: CRIU gets another */
#define PARTS_MAX 16

struct part {
        const char *path;
        int tree;                /* what is mounted there */
        bool is_file;            /* not a directory */
        char link[NAME_MAX + 1]; /* or where it leads */
};

struct parts {
        struct part all[PARTS_MAX];
        size_t count;
};

/* ------------------------------------------------------------- what is to be seen */

static int add(struct parts *p, const char *path, bool is_writable)
{
        struct part *one = &p->all[p->count];
        struct stat st;

        if (p->count == PARTS_MAX)
                return -E2BIG;
        if (stat(path, &st) < 0)
                return -errno;
        *one = (struct part){.path = path, .is_file = S_ISREG(st.st_mode), .tree = sys_clone_trees(path)};
        if (one->tree < 0)
                return one->tree;
        p->count++;
        return is_writable ? 0 : sys_mount_attrs_all(one->tree, MOUNT_ATTR_RDONLY);
}

/* A link stays one (/lib to usr/lib); what does not exist is needed by nothing. */
static int add_place(struct parts *p, const char *path)
{
        struct part *one = &p->all[p->count];
        struct stat st;

        if (lstat(path, &st) < 0)
                return errno == ENOENT ? 0 : -errno;
        if (!S_ISLNK(st.st_mode))
                return add(p, path, false);
        *one = (struct part){.path = path, .tree = -1};
        p->count++;
        return readlink(path, one->link, sizeof(one->link) - 1) < 0 ? -errno : 0;
}

/* tar and its libraries, and the host's own CRIU. */
static int add_host(struct parts *p)
{
        static const char *const places[] = {"/usr", "/bin", "/sbin", "/lib", "/lib64", "/dev"};
        int r = 0;

        for (size_t i = 0; i < ARRAY_LEN(places) && r == 0; i++)
                r = add_place(p, places[i]);
        if (r == 0)
                r = add(p, "/proc", true);
        return r < 0 ? r : add(p, "/sys", true);
}

static int add_all(struct parts *p, const struct criu_tool *t, const char *const paths[], size_t n)
{
        int r = add_host(p);

        if (r == 0 && t->dir)
                r = add(p, t->dir, false);
        if (r == 0)
                r = add(p, t->shim, false);
        for (size_t i = 0; i < n && r == 0; i++)
                if (strncmp(paths[i], "/sys/", 5) != 0)
                        r = add(p, paths[i], true);
        return r;
}

/* ------------------------------------------------------------- putting it up */

static int make_root(void)
{
        AUTO_CLOSE int fs = sys_fsopen("tmpfs"), mount = -1;
        int r = fs < 0 ? fs : sys_fs_string(fs, "size", "4m");

        if (r == 0)
                r = sys_fs_string(fs, "mode", "755");
        if (r == 0)
                r = sys_fs_create(fs);
        if (r == 0)
                r = mount = sys_fsmount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
        return r < 0 ? r : sys_move_mount(mount, AT_FDCWD, AT);
}

/* Everything above the last name of `path`, below the current directory.  What is there already may be read-only. */
static int make_above(char *path)
{
        for (char *at = strchr(path, '/'); at; at = strchr(at + 1, '/')) {
                int r;

                *at = '\0';
                r = *path && mkdir(path, 0755) < 0 && errno != EEXIST ? -errno : 0;
                *at = '/';
                if (r < 0)
                        return r;
        }
        return 0;
}

static int make_file(const char *path)
{
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);

        return fd < 0 ? -errno : close(fd);
}

static int put_up(const struct part *one)
{
        char path[PATH_MAX];
        size_t n = strlen(one->path);
        struct stat st;
        int r;

        if (n < 2 || n >= sizeof(path))
                return -ENAMETOOLONG;
        memcpy(path, one->path + 1, n); /* from here, not from "/" */
        r = make_above(path);
        if (r < 0)
                return r;
        if (one->tree < 0)
                return symlink(one->link, path) < 0 ? -errno : 0;
        if (lstat(path, &st) < 0)
                r = one->is_file ? make_file(path) : mkdir(path, 0755) < 0 ? -errno : 0;
        return r < 0 ? r : sys_move_mount(one->tree, AT_FDCWD, path);
}

/* CRIU has tar compress what lies in a tmpfs, at 30 MB/s while the sandbox is frozen.  Nothing is compressed any more; what
 * was, and what was not, is unpacked alike. */
static int make_gzip(void)
{
        static const char text[] = "#!/bin/sh\n"
                                   "PATH=/usr/bin:/bin\n"
                                   "[ \"$1\" = -d ] && exec gzip -dcf\n"
                                   "exec cat\n";
        AUTO_CLOSE int fd = -1;

        if (mkdir(&CRIU_ROOT_PROGRAMS[1], 0755) < 0)
                return -errno;
        fd = open(&(CRIU_ROOT_PROGRAMS "/gzip")[1], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
        return fd < 0 || write(fd, text, sizeof(text) - 1) != (ssize_t)(sizeof(text) - 1) ? -errno : 0;
}

static int furnish(struct parts *p, int run)
{
        int r;

        if (chdir(AT) < 0 || mkdir("run", 0755) < 0 || mkdir("tmp", 0711) < 0) /* CRIU makes mount points in /tmp */
                return -errno;
        r = make_gzip();
        if (r == 0)
                r = sys_move_mount(run, AT_FDCWD, "run");
        for (size_t i = 0; i < p->count && r == 0; i++)
                r = put_up(&p->all[i]);
        return r;
}

int criu_root_enter(const struct criu_tool *t, int run, const char *const paths[], size_t n)
{
        struct parts p = {0};
        int r;

        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return -errno;
        (void)umask(022);
        if ((r = add_all(&p, t, paths, n)) < 0 || (r = make_root()) < 0 || (r = furnish(&p, run)) < 0)
                return r; /* what is open goes with this process */
        return sys_pivot_into(AT);
}
