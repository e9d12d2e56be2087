#include "envd/build/configure.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "envd/build/prepare.h"
#include "envd/rpc/users.h"
#include "sys/fs.h"

#define DEFAULT_USER "user"
#define FILE_MAX (4u << 20)
#define DEPTH_MAX 128

/* ---- small files ---- */

static int read_text(const char *path, struct buf *out)
{
        AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        ssize_t n;

        if (fd < 0)
                return -errno;
        do {
                n = buf_fill(out, fd, 16384);
        } while (n > 0);
        return (int)n;
}

static bool file_is(const char *path, const char *text)
{
        AUTO_BUF struct buf old = BUF_INIT(FILE_MAX);

        return read_text(path, &old) == 0 && old.len == strlen(text) && memcmp(buf_at(&old), text, old.len) == 0;
}

static int write_text(const char *dir, const char *name, const char *text, mode_t mode)
{
        AUTO_CLOSE int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        return fd < 0 ? -errno : sys_replace_at(fd, name, text, strlen(text), mode);
}

/* ---- sudo ---- */

/* Does a line that begins with the user's name say NOPASSWD? */
static bool grants_sudo(struct str text, const char *user)
{
        size_t n = strlen(user);
        struct str line;

        while (text.n) {
                (void)str_cut(&text, '\n', &line);
                if (str_starts(line, user) && line.n > n && (line.p[n] == ' ' || line.p[n] == '\t') &&
                    memmem(line.p, line.n, "NOPASSWD", 8))
                        return true;
        }
        return false;
}

static bool file_grants_sudo(const char *path, const char *user)
{
        AUTO_BUF struct buf text = BUF_INIT(FILE_MAX);

        return read_text(path, &text) == 0 && grants_sudo((struct str){(const char *)buf_at(&text), text.len}, user);
}

static bool has_sudo_already(const char *user)
{
        AUTO_CLOSE int fd = open("/etc/sudoers.d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        AUTO_DIR DIR *d = fd < 0 ? NULL : sys_list(fd);
        struct dirent *e;
        char path[512];

        if (file_grants_sudo("/etc/sudoers", user))
                return true;
        while (d && (e = sys_list_next(d))) {
                (void)snprintf(path, sizeof(path), "/etc/sudoers.d/%s", e->d_name);
                if (file_grants_sudo(path, user))
                        return true;
        }
        return false;
}

/* sudo reads the directory only where its main file says so. */
static int include_sudoers_dir(void)
{
        AUTO_BUF struct buf text = BUF_INIT(FILE_MAX);
        const char *all;
        int r = read_text("/etc/sudoers", &text);

        if (r < 0 && r != -ENOENT)
                return r;
        all = buf_cstr(&text);
        if (!all)
                return -ENOMEM;
        if (strstr(all, "includedir /etc/sudoers.d"))
                return 0;
        r = text.len && all[text.len - 1] != '\n' ? buf_addc(&text, "\n") : 0;
        if (r == 0)
                r = buf_addc(&text, "@includedir /etc/sudoers.d\n");
        all = r == 0 ? buf_cstr(&text) : NULL;
        return all ? write_text("/etc", "sudoers", all, 0440) : -ENOMEM;
}

/* Is the user in "sudo:x:27:a,b"? */
static bool group_has_member(struct str line, const char *user)
{
        struct str field, one;

        for (int i = 0; i < 3; i++)
                (void)str_cut(&line, ':', &field);
        while (line.n) {
                (void)str_cut(&line, ',', &one);
                if (str_is(one, user))
                        return true;
        }
        return false;
}

/* The lines of /etc/group, with the user in that group; *ret_changed false: as before. */
static int group_lines(struct str text, const char *user, const char *group, struct buf *out, bool *ret_changed)
{
        size_t n = strlen(group);
        struct str line;
        int r = 0;

        while (r == 0 && text.n) {
                (void)str_cut(&text, '\n', &line);
                r = buf_add(out, line.p, line.n);
                if (r == 0 && str_starts(line, group) && line.n > n && line.p[n] == ':' &&
                    !group_has_member(line, user)) {
                        r = buf_addf(out, "%s%s", line.p[line.n - 1] == ':' ? "" : ",", user);
                        *ret_changed = true;
                }
                if (r == 0)
                        r = buf_addc(out, "\n");
        }
        return r;
}

static int add_to_group(const char *user, const char *group)
{
        AUTO_BUF struct buf text = BUF_INIT(FILE_MAX), out = BUF_INIT(FILE_MAX);
        bool is_changed = false;
        const char *all;
        int r = read_text("/etc/group", &text);

        if (r < 0)
                return r == -ENOENT ? 0 : r;
        r = group_lines((struct str){(const char *)buf_at(&text), text.len}, user, group, &out, &is_changed);
        if (r < 0 || !is_changed)
                return r;
        all = buf_cstr(&out);
        return all ? write_text("/etc", "group", all, 0644) : -ENOMEM;
}

int configure_sudo(const char *user, bool *ret_changed, struct err *err)
{
        char line[128];
        int r = 0;

        *ret_changed = false;
        if (access("/usr/bin/sudo", X_OK) < 0 && access("/bin/sudo", X_OK) < 0)
                return 0;
        if (has_sudo_already(user))
                return 0;
        if (mkdir("/etc/sudoers.d", 0750) < 0 && errno != EEXIST)
                r = -errno;
        (void)snprintf(line, sizeof(line), "%s ALL=(ALL:ALL) NOPASSWD: ALL\nDefaults !lecture\n", user);
        if (r == 0)
                r = write_text("/etc/sudoers.d", user, line, 0440);
        if (r == 0)
                r = include_sudoers_dir();
        *ret_changed = true;
        return r < 0 ? err_sys(err, r, "let '%s' use sudo", user) : 0;
}

/* ---- the user ---- */

static int configure_user(bool *ret_changed, struct err *err)
{
        static const char *const groups[] = {"sudo", "wheel"};
        char name[PREPARE_NAME_MAX];
        AUTO_USER struct user u = {0};
        bool created, more;
        struct stat st;
        int r = prepare_user(DEFAULT_USER, name, &created, err);

        if (r < 0)
                return r;
        r = user_lookup(DEFAULT_USER, &u);
        if (r < 0)
                return err_sys(err, r, "find the user '" DEFAULT_USER "'");
        *ret_changed |= created;
        if (stat(u.home, &st) < 0 || !S_ISDIR(st.st_mode)) {
                r = user_fill_home(&u, err);
                *ret_changed = true;
        } else if (st.st_uid != u.uid) {
                r = chown(u.home, u.uid, u.gid) < 0 ? err_sys(err, -errno, "give '%s' to its user", u.home) : 0;
                *ret_changed = true;
        }
        for (size_t i = 0; r == 0 && created && i < ARRAY_LEN(groups); i++) {
                r = add_to_group(DEFAULT_USER, groups[i]);
                if (r < 0)
                        return err_sys(err, r, "add '" DEFAULT_USER "' to a group");
        }
        if (r < 0)
                return r;
        r = configure_sudo(DEFAULT_USER, &more, err);
        *ret_changed |= more;
        return r;
}

/* ---- open directories ---- */

/* Directories only: whoever may write to one may replace the files in it, and copies of all files would fill the layer. */
static int open_below(int dir, const char *name, unsigned depth, bool *ret_changed)
{
        AUTO_CLOSE int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        AUTO_DIR DIR *d = fd < 0 ? NULL : sys_list(fd);
        struct dirent *e;
        struct stat st;
        int r = 0;

        if (fd < 0 || !d || fstat(fd, &st) < 0)
                return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 : -errno;
        if ((st.st_mode & 0777) != 0777) {
                if (fchmod(fd, (st.st_mode & 07000) | 0777) < 0)
                        return -errno;
                *ret_changed = true;
        }
        while (r == 0 && depth < DEPTH_MAX && (e = sys_list_next(d)))
                if (e->d_type == DT_DIR || e->d_type == DT_UNKNOWN)
                        r = open_below(fd, e->d_name, depth + 1, ret_changed);
        return r;
}

static int configure_open_dirs(bool *ret_changed, struct err *err)
{
        static const char *const dirs[] = {"/usr/local", "/code"};
        AUTO_USER struct user u = {0};
        int r = 0;

        if (access("/code", F_OK) < 0 && mkdir("/code", 0777) == 0) {
                *ret_changed = true;
                if (user_lookup(DEFAULT_USER, &u) == 0 && chown("/code", u.uid, u.gid) < 0)
                        return err_sys(err, -errno, "give /code to its user");
        }
        for (size_t i = 0; r == 0 && i < ARRAY_LEN(dirs); i++)
                r = open_below(AT_FDCWD, dirs[i], 0, ret_changed);
        return r < 0 ? err_sys(err, r, "open /usr/local and /code to everybody") : 0;
}

int configure_template(const char *template_id, const char *build_id, bool *ret_changed, struct err *err)
{
        char text[512];
        int r;

        *ret_changed = false;
        (void)snprintf(text, sizeof(text), "ENV_ID=%.100s\nTEMPLATE_ID=%.100s\nBUILD_ID=%.100s\n", template_id,
                       template_id, build_id);
        if (!file_is("/.e2b", text)) {
                r = write_text("/", ".e2b", text, 0644);
                if (r < 0)
                        return err_sys(err, r, "write /.e2b");
        }
        r = configure_user(ret_changed, err);
        return r < 0 ? r : configure_open_dirs(ret_changed, err);
}
