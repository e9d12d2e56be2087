/* archive.c - GET /sandglass/archive: files of the sandbox as a tar archive, for another stage of the build.
 *
 * "/app/dist" becomes the entries "dist", "dist/..."; "/app/<pattern>" those that match, named from /app on; "/" everything.
 * A link as the path itself is followed; links below are kept.  Other file systems (/proc, /dev) are left out.  Devices and
 * sockets, too.  Names come sorted, so the same files give the same archive. */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/map.h"
#include "envd/build/build_calls.h"
#include "envd/build/build_process.h"
#include "envd/build/copy_request.h"
#include "sys/fs.h"
#include "wire/tar/tar.h"

#define OUT_HIGH (512u << 10)
#define OUT_MAX (2u << 20)
#define READ_BYTES (256u << 10)
#define DEPTH_MAX 512

struct archive {
        struct build_process *p;
        struct buf out;
        struct map inodes; /* "dev:ino" of files with several names: the name in the archive, owned */
        uint64_t root_dev;
        bool has_begun; /* the head of the answer is sent */
        uint64_t matches;
};

/* ---- writing ---- */

static int archive_flush(struct archive *a)
{
        int r = 0;

        if (!a->has_begun)
                r = build_stream_begin(a->p, "application/x-tar");
        a->has_begun = true;
        if (r == 0)
                r = build_stream_write(a->p, buf_at(&a->out), a->out.len);
        buf_reset(&a->out);
        return r;
}

static int archive_zeros(struct archive *a, uint64_t n)
{
        static const char zeros[16384];
        int r = 0;

        while (r == 0 && n) {
                size_t most = n < sizeof(zeros) ? (size_t)n : sizeof(zeros);

                r = buf_add(&a->out, zeros, most);
                n -= most;
                if (r == 0 && a->out.len >= OUT_HIGH)
                        r = archive_flush(a);
        }
        return r;
}

static int archive_head(struct archive *a, const struct stat *st, enum tar_type type, const char *name,
                        const char *link, uint64_t size)
{
        const struct tar_entry e = {.type = type,
                                    .name = name,
                                    .link = link,
                                    .mode = st->st_mode & 07777,
                                    .uid = st->st_uid,
                                    .gid = st->st_gid,
                                    .mtime_s = st->st_mtim.tv_sec,
                                    .size = size};
        int r = tar_write_entry(&a->out, &e);

        return r == 0 && a->out.len >= OUT_HIGH ? archive_flush(a) : r;
}

/* Exactly `size` bytes, as the head says: a file that shrank meanwhile ends with zeros. */
static int archive_bytes(struct archive *a, int fd, uint64_t size)
{
        uint64_t left = size;
        int r = 0;

        while (r == 0 && left) {
                uint8_t *at;
                size_t most = left < READ_BYTES ? (size_t)left : READ_BYTES;
                ssize_t n;

                r = buf_reserve(&a->out, most, &at);
                if (r < 0)
                        break;
                n = read(fd, at, most);
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                buf_commit(&a->out, (size_t)n);
                left -= (uint64_t)n;
                if (a->out.len >= OUT_HIGH)
                        r = archive_flush(a);
        }
        return r < 0 ? r : archive_zeros(a, left + tar_padding(size));
}

/* ---- entries ---- */

/* The name under which the file is in the archive already; NULL: it is not, and is from now on. */
static const char *known_name(struct archive *a, const struct stat *st, const char *name)
{
        char key[64];
        char *copy, *known;

        if (st->st_nlink < 2)
                return NULL;
        (void)snprintf(key, sizeof(key), "%llx:%llx", (unsigned long long)st->st_dev, (unsigned long long)st->st_ino);
        known = map_get(&a->inodes, str_of(key));
        if (known)
                return known;
        copy = strdup(name);
        if (copy && map_put(&a->inodes, str_of(key), copy, NULL) < 0)
                free(copy);
        return NULL;
}

static int archive_file(struct archive *a, int dir, const char *base, const char *name)
{
        AUTO_CLOSE int fd = openat(dir, base, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        const char *known;
        struct stat st;
        int r;

        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode))
                return -EAGAIN; /* changed under our hands */
        known = known_name(a, &st, name);
        if (known)
                return archive_head(a, &st, TAR_HARD_LINK, name, known, 0);
        r = archive_head(a, &st, TAR_FILE, name, NULL, (uint64_t)st.st_size);
        return r < 0 ? r : archive_bytes(a, fd, (uint64_t)st.st_size);
}

static int archive_link(struct archive *a, int dir, const char *base, const char *name, const struct stat *st)
{
        char target[PATH_MAX];
        ssize_t n = readlinkat(dir, base, target, sizeof(target) - 1);

        if (n < 0)
                return -errno;
        target[n] = '\0';
        return archive_head(a, st, TAR_SYMLINK, name, target, 0);
}

static int compare_names(const void *x, const void *y)
{
        return strcmp(*(char *const *)x, *(char *const *)y);
}

/* The names in a directory, sorted; to be freed, each and the list, by names_free(). */
static int names_read(int dir, char ***ret, size_t *ret_count)
{
        AUTO_DIR DIR *d = sys_list(dir);
        struct dirent *e;

        *ret = NULL;
        *ret_count = 0;
        if (!d)
                return -errno;
        while ((e = sys_list_next(d))) {
                char **more = *ret;

                if ((*ret_count & (*ret_count - 1)) == 0) /* grows at powers of two */
                        more = realloc(*ret, (*ret_count ? 2 * *ret_count : 1) * sizeof(*more));
                if (!more)
                        return -ENOMEM;
                *ret = more;
                more[*ret_count] = strdup(e->d_name);
                if (!more[(*ret_count)++])
                        return -ENOMEM;
        }
        qsort(*ret, *ret_count, sizeof(**ret), compare_names);
        return 0;
}

static void names_free(char **names, size_t count)
{
        for (size_t i = 0; i < count; i++)
                free(names[i]);
        free(names);
}

static int archive_entry(struct archive *a, int dir, const char *base, const char *name, unsigned depth);

static int archive_below(struct archive *a, int dir, const char *name, unsigned depth)
{
        char **names, below[PATH_MAX];
        size_t count;
        int r = names_read(dir, &names, &count);

        for (size_t i = 0; r == 0 && i < count; i++) {
                if (snprintf(below, sizeof(below), "%s%s%s", name, name[0] ? "/" : "", names[i]) >= PATH_MAX)
                        r = -ENAMETOOLONG;
                else
                        r = archive_entry(a, dir, names[i], below, depth + 1);
        }
        names_free(names, count);
        return r;
}

static int archive_dir(struct archive *a, int fd, const char *name, unsigned depth)
{
        struct stat st;
        int r;

        if (fstat(fd, &st) < 0)
                return -errno;
        if (st.st_dev != a->root_dev)
                return 0;
        if (depth > DEPTH_MAX)
                return -ELOOP;
        r = archive_head(a, &st, TAR_DIRECTORY, name, NULL, 0);
        return r < 0 ? r : archive_below(a, fd, name, depth);
}

static int archive_entry(struct archive *a, int dir, const char *base, const char *name, unsigned depth)
{
        AUTO_CLOSE int fd = -1;
        struct stat st;

        if (fstatat(dir, base, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : -errno;
        switch (st.st_mode & S_IFMT) {
        case S_IFREG: return archive_file(a, dir, base, name);
        case S_IFLNK: return archive_link(a, dir, base, name, &st);
        case S_IFIFO: return archive_head(a, &st, TAR_FIFO, name, NULL, 0);
        case S_IFDIR: break;
        default: return 0; /* a device or a socket */
        }
        fd = openat(dir, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? -errno : archive_dir(a, fd, name, depth);
}

/* ---- the path ---- */

/* Everything below dir that matches the pattern, part by part; name is where dir is, in the archive. */
static int archive_matches(struct archive *a, int dir, const char *pattern, const char *name, unsigned depth)
{
        char part[NAME_MAX + 1], below[PATH_MAX], **names;
        size_t n = strcspn(pattern, "/"), count;
        const char *rest = pattern[n] ? pattern + n + 1 : NULL;
        int r;

        if (n > NAME_MAX || depth > DEPTH_MAX)
                return -ENAMETOOLONG;
        memcpy(part, pattern, n);
        part[n] = '\0';
        r = names_read(dir, &names, &count);
        for (size_t i = 0; r == 0 && i < count; i++) {
                AUTO_CLOSE int fd = -1;

                if (fnmatch(part, names[i], FNM_PERIOD) != 0)
                        continue;
                if (snprintf(below, sizeof(below), "%s%s%s", name, name[0] ? "/" : "", names[i]) >= PATH_MAX) {
                        r = -ENAMETOOLONG;
                } else if (!rest) {
                        a->matches++;
                        r = archive_entry(a, dir, names[i], below, 1);
                } else {
                        fd = openat(dir, names[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                        r = fd < 0 ? 0 : archive_matches(a, fd, rest, below, depth + 1);
                }
        }
        names_free(names, count);
        return r;
}

static int archive_pattern(struct archive *a, const char *path, struct err *err)
{
        char dir[PATH_MAX];
        AUTO_CLOSE int fd = -1;
        int r;

        (void)snprintf(dir, sizeof(dir), "%s", path);
        (void)copy_cut_pattern(dir);
        fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return err_set(err, ERR_NOT_FOUND, "'%.200s' does not exist", dir);
        r = archive_matches(a, fd, path + strlen(dir), "", 0);
        if (r < 0)
                return err_sys(err, r, "read '%.150s'", path);
        return a->matches ? 0 : err_set(err, ERR_NOT_FOUND, "nothing matches '%.200s'", path);
}

static int archive_path(struct archive *a, char *path, struct err *err)
{
        AUTO_CLOSE int fd = -1;
        const char *base;
        char real[PATH_MAX];
        struct stat st;
        int r;

        copy_clean_path(path);
        base = strrchr(path, '/') + 1;
        if (!realpath(path, real) || stat(real, &st) < 0)
                return err_set(err, ERR_NOT_FOUND, "'%.200s' does not exist", path);
        if (S_ISDIR(st.st_mode)) {
                fd = open(real, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                r = fd < 0 ? -errno : archive_dir(a, fd, base, 0);
        } else {
                r = archive_entry(a, AT_FDCWD, real, base, 0);
        }
        return r < 0 ? err_sys(err, r, "read '%.150s'", path) : 0;
}

static int archive_all(struct archive *a, struct err *err)
{
        AUTO_FREE char *path = NULL;
        struct stat st;
        int r = url_query_get(a->p->url->query, "path", &path);

        if (r < 0 || !path || path[0] != '/' || strlen(path) >= PATH_MAX)
                return err_set(err, ERR_INVALID, "'path' must be an absolute path");
        if (stat("/", &st) < 0)
                return err_sys(err, -errno, "/");
        a->root_dev = st.st_dev;
        r = strpbrk(path, "*?[") && access(path, F_OK) < 0 ? archive_pattern(a, path, err) : archive_path(a, path, err);
        if (r == 0 && (r = archive_zeros(a, TAR_END_BYTES)) == 0 && (r = archive_flush(a)) == 0)
                r = build_stream_end(a->p);
        return r;
}

static void archive_work(struct build_process *p)
{
        struct archive a = {.p = p, .out = BUF_INIT(OUT_MAX)};
        struct err err = {0};

        if (archive_all(&a, &err) < 0 && !a.has_begun)
                build_answer_error(p, &err); /* else the answer has no end, and nobody takes it for the whole archive */
        MAP_EACH (slot, &a.inodes)
                free(slot->value);
        map_done(&a.inodes);
        buf_done(&a.out);
}

void build_call_archive(const struct handler_context *context, struct http_request *rq)
{
        build_process_start(context, rq, archive_work);
}
