/* user_add.c - making users in images of any kind: with the image's own program, or without any. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "envd/build/prepare.h"
#include "envd/rpc/users.h"
#include "sys/fs.h"

#define OUTPUT_MAX 4096u
#define SKEL_DEPTH_MAX 16
#define FIRST_UID 1000u
#define LAST_UID 60000u

/* ---- the image's programs ---- */

static const char *find_program(const char *const *paths)
{
        for (; *paths; paths++)
                if (access(*paths, X_OK) == 0)
                        return *paths;
        return NULL;
}

static const char *login_shell(void)
{
        return access("/bin/bash", X_OK) == 0 ? "/bin/bash" : "/bin/sh";
}

static void exec_program(const char *path, const char *const *argv, int out)
{
        static const char *const env[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                                          "LC_ALL=C", NULL};
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        if (dup2(null, 0) >= 0 && dup2(out, 1) >= 0 && dup2(out, 2) >= 0)
                (void)execve(path, (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)env);
        _exit(127);
}

/* Run it to its end; what it says is in the error when it fails. */
static int run_program(const char *path, const char *const *argv, struct err *err)
{
        AUTO_BUF struct buf said = BUF_INIT(OUTPUT_MAX);
        AUTO_CLOSE int from = -1;
        int fds[2], status;
        char drop[512];
        ssize_t n;
        pid_t pid;

        if (pipe2(fds, O_CLOEXEC) < 0)
                return err_sys(err, -errno, "run %s", path);
        from = fds[0];
        pid = fork();
        if (pid == 0)
                exec_program(path, argv, fds[1]);
        (void)close(fds[1]);
        if (pid < 0)
                return err_sys(err, -errno, "run %s", path);
        do {
                n = buf_room(&said) ? buf_fill(&said, from, 512) : read(from, drop, sizeof(drop));
        } while (n > 0);
        if (waitpid(pid, &status, 0) < 0)
                return err_sys(err, -errno, "run %s", path);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                return 0;
        while (said.len && buf_at(&said)[said.len - 1] == '\n')
                said.len--;
        return err_set(err, ERR_INVALID, "%s failed: %.*s", path, (int)said.len, said.len ? (char *)buf_at(&said) : "");
}

static int add_by_useradd(const char *path, const char *name, const char *uid, struct err *err)
{
        const char *argv[] = {path,
                              "--create-home",
                              "--shell",
                              login_shell(),
                              uid ? "--uid" : name,
                              uid ? uid : NULL,
                              uid ? name : NULL,
                              NULL};

        return run_program(path, argv, err);
}

static int add_by_busybox(const char *path, const char *name, const char *uid, struct err *err)
{
        const char *argv[] = {path, "-D", "-s", login_shell(), uid ? "-u" : name, uid ? uid : NULL, uid ? name : NULL,
                              NULL};

        return run_program(path, argv, err);
}

/* Debian's adduser is another program with other options; but where it is, useradd is, too. */
static bool is_busybox(const char *path)
{
        char target[PATH_MAX];
        ssize_t n = readlink(path, target, sizeof(target) - 1);

        if (n <= 0)
                return false;
        target[n] = '\0';
        return strstr(target, "busybox") != NULL;
}

/* ---- without programs ---- */

static uint32_t free_uid(const struct users *us)
{
        uint32_t uid = FIRST_UID;

        while (uid < LAST_UID && (users_name(us, uid).n || users_group_name(us, uid).n))
                uid++;
        return uid;
}

static int append_line(const char *path, mode_t mode, const char *line)
{
        AUTO_CLOSE int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, mode);
        struct stat st;
        char last = '\n';

        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        if (st.st_size > 0 && pread(fd, &last, 1, st.st_size - 1) < 0)
                return -errno;
        return dprintf(fd, "%s%s\n", last == '\n' ? "" : "\n", line) < 0 ? -errno : 0;
}

static int add_lines(const char *name, uint32_t uid, bool has_group)
{
        char line[256];
        int r;

        if (mkdir("/etc", 0755) < 0 && errno != EEXIST)
                return -errno;
        (void)snprintf(line, sizeof(line), "%s:x:%u:", name, uid);
        r = has_group ? 0 : append_line("/etc/group", 0644, line);
        if (r < 0)
                return r;
        if (access("/etc/shadow", F_OK) == 0) {
                (void)snprintf(line, sizeof(line), "%s:*:19000:0:99999:7:::", name);
                r = append_line("/etc/shadow", 0640, line);
                if (r < 0)
                        return r;
        }
        (void)snprintf(line, sizeof(line), "%s:x:%u:%u::/home/%s:%s", name, uid, uid, name, login_shell());
        return append_line("/etc/passwd", 0644, line);
}

static int add_by_hand(const char *name, const char *uid_text, struct err *err)
{
        AUTO_USERS struct users us;
        AUTO_USER struct user u = {0};
        uint32_t uid = 0;
        int r;

        users_init(&us);
        r = users_load(&us);
        if (r == 0 && uid_text)
                r = parse_u32(str_of(uid_text), 0, 65534, &uid);
        else
                uid = free_uid(&us);
        if (r == 0)
                r = add_lines(name, uid, users_group_name(&us, uid).n > 0);
        if (r == 0)
                r = user_lookup(name, &u);
        return r < 0 ? err_sys(err, r, "add the user '%s' to /etc/passwd", name) : user_fill_home(&u, err);
}

int user_add(const char *name, const char *uid, struct err *err)
{
        static const char *const useradd[] = {"/usr/sbin/useradd", "/sbin/useradd", "/usr/bin/useradd", NULL};
        static const char *const adduser[] = {"/usr/sbin/adduser", "/sbin/adduser", "/usr/bin/adduser", NULL};
        const char *path = find_program(useradd);

        if (path)
                return add_by_useradd(path, name, uid, err);
        path = find_program(adduser);
        if (path && is_busybox(path))
                return add_by_busybox(path, name, uid, err);
        return add_by_hand(name, uid, err);
}

/* ---- homes ---- */

static int copy_bytes(int from, int to)
{
        char piece[16384];
        ssize_t n;

        while ((n = read(from, piece, sizeof(piece))) > 0)
                if (write(to, piece, (size_t)n) != n)
                        return -EIO;
        return n < 0 ? -errno : 0;
}

static int copy_skel_file(int from, int to, const char *name, const struct stat *st, const struct user *owner)
{
        AUTO_CLOSE int in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY);
        AUTO_CLOSE int out = -1;
        int r;

        if (in < 0)
                return -errno;
        out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, st->st_mode & 0777);
        if (out < 0)
                return errno == EEXIST ? 0 : -errno;
        r = copy_bytes(in, out);
        if (r == 0 && fchown(out, owner->uid, owner->gid) < 0)
                r = -errno;
        return r;
}

static int copy_skel_link(int from, int to, const char *name, const struct user *owner)
{
        char target[PATH_MAX];
        ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);

        if (n < 0)
                return -errno;
        target[n] = '\0';
        if (symlinkat(target, to, name) < 0)
                return errno == EEXIST ? 0 : -errno;
        return fchownat(to, name, owner->uid, owner->gid, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int copy_skel(int from, int to, const struct user *owner, unsigned depth);

static int copy_skel_entry(int from, int to, const char *name, const struct user *owner, unsigned depth)
{
        AUTO_CLOSE int below_from = -1, below_to = -1;
        struct stat st;

        if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        if (S_ISREG(st.st_mode))
                return copy_skel_file(from, to, name, &st, owner);
        if (S_ISLNK(st.st_mode))
                return copy_skel_link(from, to, name, owner);
        if (!S_ISDIR(st.st_mode) || depth == 0)
                return 0;
        if (mkdirat(to, name, st.st_mode & 0777) == 0 && fchownat(to, name, owner->uid, owner->gid, 0) < 0)
                return -errno;
        below_from = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        below_to = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below_from < 0 || below_to < 0)
                return -errno;
        return copy_skel(below_from, below_to, owner, depth - 1);
}

static int copy_skel(int from, int to, const struct user *owner, unsigned depth)
{
        AUTO_DIR DIR *d = sys_list(from);
        struct dirent *e;
        int r = d ? 0 : -errno;

        while (r == 0 && (e = sys_list_next(d)))
                r = copy_skel_entry(from, to, e->d_name, owner, depth);
        return r;
}

int user_fill_home(const struct user *owner, struct err *err)
{
        AUTO_CLOSE int skel = -1, home = -1;
        bool created;
        int r = prepare_workdir(owner->home, owner, &created, err);

        if (r < 0)
                return r;
        skel = open("/etc/skel", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        home = open(owner->home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (home < 0)
                return err_sys(err, -errno, "open '%s'", owner->home);
        r = skel < 0 ? 0 : copy_skel(skel, home, owner, SKEL_DEPTH_MAX);
        return r < 0 ? err_sys(err, r, "fill '%s' from /etc/skel", owner->home) : 0;
}
