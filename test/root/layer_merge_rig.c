#include "layer_merge_rig.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "engine/layers/layer_merge.h"
#include "sys/fs.h"
#include "sys/mnt.h"

#define VIEW_MAX (64u << 20)

const char *lab_reason_to_skip(void)
{
        return geteuid() == 0 ? NULL : "needs root";
}

bool lab_open(struct lab *l)
{
        static const char *const below[] = {"sealed", "upper", "work", "m", "sealed/base"};
        const char *tmp = getenv("TMPDIR");
        char path[128];

        (void)snprintf(l->dir, sizeof(l->dir), "%s/sandglass-merge-XXXXXX", tmp && strlen(tmp) < 30 ? tmp : "/tmp");
        if (!mkdtemp(l->dir) || unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return false;
        for (size_t i = 0; i < ARRAY_LEN(below); i++) {
                (void)snprintf(path, sizeof(path), "%s/%s", l->dir, below[i]);
                if (mkdir(path, 0755) < 0)
                        return false;
        }
        l->root = open(l->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        l->sealed = sys_open_dir(l->root, "sealed");
        return l->sealed >= 0;
}

bool lab_clear(struct lab *l)
{
        close_fd(&l->sealed);
        if (sys_remove_tree(l->root, "sealed") < 0 || mkdirat(l->root, "sealed", 0755) < 0)
                return false;
        l->sealed = sys_open_dir(l->root, "sealed");
        return l->sealed >= 0;
}

void lab_close(struct lab *l)
{
        static const char *const below[] = {"sealed", "upper", "work", "m"};

        close_fd(&l->sealed);
        for (size_t i = 0; i < ARRAY_LEN(below); i++)
                if (sys_remove_tree(l->root, below[i]) < 0)
                        printf("# %s/%s stays\n", l->dir, below[i]);
        close_fd(&l->root);
        (void)rmdir(l->dir);
}

static int add_path(struct lab *l, int fs, const char *key, const char *below)
{
        char path[256];

        (void)snprintf(path, sizeof(path), "%s/%s", l->dir, below);
        return sys_fs_string(fs, key, path);
}

int lab_mount(struct lab *l, const char *const *layers, size_t n, bool is_writable)
{
        AUTO_CLOSE int fs = sys_fsopen("overlay");
        char below[128], why[160];
        int r = fs, fd;

        for (size_t i = n; i-- > 0 && r >= 0;) {
                (void)snprintf(below, sizeof(below), "sealed/%s", layers[i]);
                r = add_path(l, fs, "lowerdir+", below);
        }
        if (r >= 0 && is_writable)
                (void)((r = add_path(l, fs, "upperdir", "upper")) < 0 || (r = add_path(l, fs, "workdir", "work")) < 0 ||
                       (r = sys_fs_string(fs, "index", "off")) < 0);
        if (r >= 0)
                (void)((r = sys_fs_string(fs, "redirect_dir", is_writable ? "on" : "follow")) < 0 ||
                       (r = sys_fs_string(fs, "metacopy", "off")) < 0 || (r = sys_fs_create(fs)) < 0);
        fd = r < 0 ? r : sys_fsmount(fs, 0);
        if (fd < 0)
                printf("# overlay: %s (%s)\n", strerror(-fd), sys_fs_why(fs, why, sizeof(why)));
        return fd;
}

void lab_unmount(struct lab *l, int fd)
{
        (void)l;
        if (fd >= 0)
                (void)close(fd); /* detached: it goes with its last fd */
}

bool lab_seal(struct lab *l, const char *name)
{
        return renameat(l->root, "upper", l->sealed, name) == 0 && mkdirat(l->root, "upper", 0755) == 0 &&
               sys_remove_tree(l->root, "work") == 0 && mkdirat(l->root, "work", 0755) == 0;
}

/* ------------------------------------------------------------- what is seen */

struct seen {
        char **lines;
        size_t n, cap;
        struct {
                ino_t ino;
                char *path;
        } * files;
        size_t file_count, file_cap;
};

static void add_hex(struct buf *b, const void *p, size_t n)
{
        const uint8_t *byte = p;

        for (size_t i = 0; i < n; i++)
                (void)buf_addf(b, byte[i] > 32 && byte[i] < 127 ? "%c" : "\\%02x", byte[i]);
}

static int by_text(const void *a, const void *b)
{
        return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add_xattrs(struct buf *b, int fd)
{
        static char names[XATTR_LIST_MAX], value[XATTR_SIZE_MAX];
        char proc[64], *sorted[64];
        ssize_t n;
        size_t count = 0;

        (void)snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
        n = listxattr(proc, names, sizeof(names));
        for (ssize_t at = 0; at < n && count < ARRAY_LEN(sorted); at += (ssize_t)strlen(names + at) + 1)
                sorted[count++] = names + at;
        qsort(sorted, count, sizeof(*sorted), by_text);
        for (size_t i = 0; i < count; i++) {
                n = getxattr(proc, sorted[i], value, sizeof(value));
                (void)buf_addf(b, " %s=", sorted[i]);
                add_hex(b, value, n < 0 ? 0 : (size_t)n);
        }
}

/* The first name under which this file was met; names are met in sorted order. */
static const char *first_name(struct seen *s, ino_t ino, const char *path)
{
        for (size_t i = 0; i < s->file_count; i++)
                if (s->files[i].ino == ino)
                        return s->files[i].path;
        if (s->file_count == s->file_cap) {
                s->file_cap = s->file_cap ? s->file_cap * 2 : 64;
                s->files = realloc(s->files, s->file_cap * sizeof(*s->files));
        }
        s->files[s->file_count].ino = ino;
        s->files[s->file_count].path = strdup(path);
        return s->files[s->file_count++].path;
}

static void add_content(struct seen *s, struct buf *b, int dir, const char *name, const struct stat *st,
                        const char *path)
{
        char text[4096];
        ssize_t n = 0;

        if (S_ISREG(st->st_mode)) {
                AUTO_CLOSE int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

                n = read(fd, text, sizeof(text));
        } else if (S_ISLNK(st->st_mode)) {
                n = readlinkat(dir, name, text, sizeof(text));
        }
        (void)buf_addf(b, " size=%lld same=%s content=", (long long)st->st_size, first_name(s, st->st_ino, path));
        add_hex(b, text, n < 0 ? 0 : (size_t)n);
}

static void keep_line(struct seen *s, struct buf *b)
{
        if (s->n == s->cap) {
                s->cap = s->cap ? s->cap * 2 : 64;
                s->lines = realloc(s->lines, s->cap * sizeof(*s->lines));
        }
        s->lines[s->n++] = strdup(buf_cstr(b));
}

static bool see(struct seen *s, int dir, const char *name, const char *path);

static bool see_below(struct seen *s, int fd, const char *path)
{
        struct dirent **list = NULL;
        char below[PATH_MAX];
        bool ok = true;
        int n = scandirat(fd, ".", &list, NULL, alphasort);

        for (int i = 0; i < n; i++) {
                if (strcmp(list[i]->d_name, ".") != 0 && strcmp(list[i]->d_name, "..") != 0) {
                        (void)snprintf(below, sizeof(below), "%s/%s", path, list[i]->d_name);
                        ok = see(s, fd, list[i]->d_name, below) && ok;
                }
                free(list[i]);
        }
        free(list);
        return ok && n >= 0;
}

static bool see(struct seen *s, int dir, const char *name, const char *path)
{
        AUTO_CLOSE int fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        AUTO_BUF struct buf b = BUF_INIT(VIEW_MAX);
        struct stat st;

        if (fd < 0 || fstatat(fd, "", &st, AT_EMPTY_PATH) < 0) {
                printf("# %s is listed but cannot be opened: %s\n", path, strerror(errno));
                return false;
        }
        add_hex(&b, path, strlen(path));
        (void)buf_addf(&b, " %o %u:%u %lld.%09ld rdev=%llx", st.st_mode, st.st_uid, st.st_gid,
                       (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec, (unsigned long long)st.st_rdev);
        if (!S_ISDIR(st.st_mode))
                add_content(s, &b, dir, name, &st, path);
        add_xattrs(&b, fd);
        keep_line(s, &b);
        if (S_ISDIR(st.st_mode)) {
                AUTO_CLOSE int below = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

                return below >= 0 && see_below(s, below, path);
        }
        return true;
}

bool lab_view(int fd, struct buf *out)
{
        struct seen s = {0};
        bool ok = see(&s, fd, ".", "");

        for (size_t i = 0; i < s.n; i++) {
                (void)buf_addf(out, "%s\n", s.lines[i]);
                free(s.lines[i]);
        }
        for (size_t i = 0; i < s.file_count; i++)
                free(s.files[i].path);
        free(s.lines);
        free(s.files);
        return ok;
}

static bool view_of(struct lab *l, const char *const *layers, size_t n, struct buf *out)
{
        int fd = lab_mount(l, layers, n, false);
        bool ok = fd >= 0 && lab_view(fd, out);

        lab_unmount(l, fd);
        return ok;
}

static void print_difference(const char *a, const char *b)
{
        while (*a && *b) {
                size_t n = strcspn(a, "\n"), m = strcspn(b, "\n");

                if (n != m || memcmp(a, b, n) != 0)
                        break;
                a += n + 1;
                b += m + 1;
        }
        printf("# was  %.*s\n# is   %.*s\n", (int)strcspn(a, "\n"), a, (int)strcspn(b, "\n"), b);
}

bool lab_same_when_flat(struct lab *l, const char *const *layers, size_t n, size_t first, size_t last, const char *into)
{
        AUTO_BUF struct buf before = BUF_INIT(VIEW_MAX), after = BUF_INIT(VIEW_MAX);
        const char *flat[RIG_LAYERS_MAX];
        struct layer_merge_count count;
        struct err err = {0};
        size_t m = 0;

        if (!view_of(l, layers, n, &before) || mkdirat(l->sealed, into, 0700) < 0)
                return false;
        if (layer_merge(l->sealed, layers + first, last - first + 1, into, &count, &err) < 0) {
                printf("# %s\n", err.msg);
                return false;
        }
        for (size_t i = 0; i < n; i++) {
                if (i <= first || i > last)
                        flat[m++] = i == first ? into : layers[i];
        }
        if (!view_of(l, flat, m, &after))
                return false;
        if (strcmp(buf_cstr(&before), buf_cstr(&after)) == 0)
                return true;
        print_difference(buf_cstr(&before), buf_cstr(&after));
        return false;
}
