/* The archive of a COPY: tar (ustar, with pax headers for what does not fit), plain or gzip. */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "base/buf.h"
#include "base/err.h"
#include "dockerfile/context.h"

#define BLOCK 512u
#define PIECE (256u << 10)
#define NAME_MAX_IN_HEADER 100u
#define SIZE_MAX_IN_HEADER 077777777777LL

extern char **environ;

/* ---- an output that compresses, or does not ---- */

struct sink {
        int fd;
        z_stream z;
        bool is_compressed;
        uint8_t *piece; /* owned */
        struct err *err;
};

static int sink_write(struct sink *s, const void *p, size_t n)
{
        while (n) {
                ssize_t done = write(s->fd, p, n);

                if (done < 0 && errno == EINTR)
                        continue;
                if (done < 0)
                        return err_sys(s->err, -errno, "write the archive to a temporary file");
                p = (const char *)p + done;
                n -= (size_t)done;
        }
        return 0;
}

static int sink_deflate(struct sink *s, const void *p, size_t n, int flush)
{
        int r = 0;

        s->z.next_in = (z_const Bytef *)p;
        s->z.avail_in = (uInt)n;
        do {
                s->z.next_out = s->piece;
                s->z.avail_out = PIECE;
                if (deflate(&s->z, flush) == Z_STREAM_ERROR)
                        return err_set(s->err, ERR_INTERNAL, "compress the archive");
                r = sink_write(s, s->piece, PIECE - s->z.avail_out);
        } while (r == 0 && s->z.avail_out == 0);
        return r;
}

static int sink_add(struct sink *s, const void *p, size_t n) /* n: at most PIECE */
{
        return s->is_compressed ? sink_deflate(s, p, n, Z_NO_FLUSH) : sink_write(s, p, n);
}

static int sink_pad(struct sink *s, uint64_t size)
{
        static const uint8_t zeros[BLOCK];

        return size % BLOCK ? sink_add(s, zeros, BLOCK - size % BLOCK) : 0;
}

/* ---- headers ---- */

struct header { /* of ustar */
        char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100], magic[6], version[2],
                user[32], group[32], major[8], minor[8], prefix[155], rest[12];
};

static void put_octal(char *to, size_t size, unsigned long long n)
{
        (void)snprintf(to, size, "%0*llo", (int)size - 1, n);
}

struct member { /* one entry of the archive */
        char type;
        const char *name, *link;
        unsigned mode;
        uint64_t size;
        int64_t mtime;
};

static int add_header(struct sink *s, const struct member *m)
{
        struct header h = {.type = m->type, .magic = "ustar", .version = {'0', '0'}};
        unsigned sum = 0;

        _Static_assert(sizeof(h) == BLOCK, "a header is one block");
        memcpy(h.name, m->name, strnlen(m->name, sizeof(h.name)));
        memcpy(h.link, m->link, strnlen(m->link, sizeof(h.link)));
        put_octal(h.mode, sizeof(h.mode), m->mode & 07777);
        put_octal(h.uid, sizeof(h.uid), 0);
        put_octal(h.gid, sizeof(h.gid), 0);
        put_octal(h.size, sizeof(h.size), m->size > SIZE_MAX_IN_HEADER ? 0 : m->size);
        put_octal(h.mtime, sizeof(h.mtime), m->mtime > 0 && m->mtime <= SIZE_MAX_IN_HEADER ? (uint64_t)m->mtime : 0);
        memset(h.sum, ' ', sizeof(h.sum));
        for (size_t i = 0; i < BLOCK; i++)
                sum += ((const uint8_t *)&h)[i];
        (void)snprintf(h.sum, sizeof(h.sum), "%06o", sum);
        return sink_add(s, &h, sizeof(h));
}

/* "25 path=...\n": the number counts itself. */
static int add_record(struct buf *out, const char *key, const char *value)
{
        size_t n = strlen(key) + strlen(value) + 3, all = n;
        char digits[24];

        for (int i = 0; i < 3; i++)
                all = n + (size_t)snprintf(digits, sizeof(digits), "%zu", all);
        return buf_addf(out, "%zu %s=%s\n", all, key, value);
}

/* What does not fit into a header of old is in a header of its own before it. */
static int add_long_header(struct sink *s, const struct member *m)
{
        AUTO_BUF struct buf records = BUF_INIT(PIECE);
        char digits[24];
        int r = 0;

        if (strlen(m->name) > NAME_MAX_IN_HEADER)
                r = add_record(&records, "path", m->name);
        if (r == 0 && strlen(m->link) > NAME_MAX_IN_HEADER)
                r = add_record(&records, "linkpath", m->link);
        (void)snprintf(digits, sizeof(digits), "%llu", (unsigned long long)m->size);
        if (r == 0 && m->size > SIZE_MAX_IN_HEADER)
                r = add_record(&records, "size", digits);
        if (r < 0)
                return err_sys(s->err, r, "archive '%.100s'", m->name);
        if (records.len == 0)
                return 0;
        r = add_header(
                s,
                &(struct member){.type = 'x', .name = "././@PaxHeader", .link = "", .mode = 0644, .size = records.len});
        if (r == 0)
                r = sink_add(s, buf_at(&records), records.len);
        return r == 0 ? sink_pad(s, records.len) : r;
}

static int add_head(struct sink *s, const struct member *m)
{
        int r = add_long_header(s, m);

        return r < 0 ? r : add_header(s, m);
}

/* ---- entries ---- */

/* Exactly as many bytes as the header says: a file that shrinks meanwhile is an error. */
static int add_content(struct sink *s, int fd, const char *path, uint64_t size)
{
        AUTO_FREE uint8_t *piece = malloc(PIECE);
        uint64_t left = size;
        int r = piece ? 0 : err_set(s->err, ERR_LIMIT, "out of memory");

        while (r == 0 && left) {
                ssize_t n = read(fd, piece, left < PIECE ? (size_t)left : PIECE);

                if (n < 0)
                        return err_sys(s->err, -errno, "read '%s'", path);
                if (n == 0)
                        return err_set(s->err, ERR_CONFLICT, "'%s' changes while it is read", path);
                r = sink_add(s, piece, (size_t)n);
                left -= (uint64_t)n;
        }
        return r < 0 ? r : sink_pad(s, size);
}

static int add_file(struct sink *s, const struct context *c, const struct context_entry *e, const char *name)
{
        AUTO_CLOSE int fd = openat(c->dir, e->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        int r;

        if (fd < 0)
                return err_sys(s->err, -errno, "open '%s'", e->path);
        r = add_head(s, &(struct member){'0', name, "", e->mode, (uint64_t)e->size, e->mtime});
        return r < 0 ? r : add_content(s, fd, e->path, (uint64_t)e->size);
}

static int add_link(struct sink *s, const struct context *c, const struct context_entry *e, const char *name)
{
        char target[4097];
        ssize_t n = readlinkat(c->dir, e->path, target, sizeof(target) - 1);

        if (n < 0)
                return err_sys(s->err, -errno, "read the link '%s'", e->path);
        target[n] = 0;
        return add_head(s, &(struct member){'2', name, target, 0777, 0, e->mtime});
}

static int add_entry(struct sink *s, const struct context *c, const struct context_entry *e)
{
        const char *name = e->name ? e->name : e->path;
        AUTO_FREE char *as_dir = NULL;

        if (S_ISREG(e->mode))
                return add_file(s, c, e, name);
        if (S_ISLNK(e->mode))
                return add_link(s, c, e, name);
        if (asprintf(&as_dir, "%s/", name[0] ? name : ".") < 0)
                return err_set(s->err, ERR_LIMIT, "out of memory");
        return add_head(s, &(struct member){'5', as_dir, "", e->mode, 0, e->mtime});
}

static int add_text(struct sink *s, const struct dockerfile_copy *copy)
{
        size_t n = strlen(copy->content), done = 0;
        int r = add_head(s, &(struct member){'0', copy->src, "", 0644, n, time(NULL)});

        for (; r == 0 && done < n; done += n - done < PIECE ? n - done : PIECE)
                r = sink_add(s, copy->content + done, n - done < PIECE ? n - done : PIECE);
        return r < 0 ? r : sink_pad(s, n);
}

static int add_all(struct sink *s, const struct context *c, const struct context_files *f)
{
        static const uint8_t end[2 * BLOCK];
        int r = f->kind == CONTEXT_TEXT ? add_text(s, f->copy) : 0;

        for (size_t i = 0; r == 0 && i < f->count; i++)
                r = add_entry(s, c, &f->at[i]);
        if (r == 0)
                r = sink_add(s, end, sizeof(end));
        return r == 0 && s->is_compressed ? sink_deflate(s, "", 0, Z_FINISH) : r;
}

/* ---- archives that are there already (ADD) ---- */

static bool is_tar(const uint8_t *p, size_t n)
{
        return n >= 262 && memcmp(p + 257, "ustar", 5) == 0;
}

/* What the program writes of `fd`; the caller closes *ret_out and waits. */
static int start_program(const char *program, int fd, pid_t *ret_pid, int *ret_out)
{
        char *const argv[] = {(char *)program, "-dc", NULL};
        posix_spawn_file_actions_t actions;
        int out[2], r;

        if (pipe2(out, O_CLOEXEC) < 0)
                return -errno;
        r = posix_spawn_file_actions_init(&actions);
        if (r == 0) {
                (void)posix_spawn_file_actions_adddup2(&actions, fd, STDIN_FILENO);
                (void)posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
                (void)posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
                r = posix_spawnp(ret_pid, program, &actions, NULL, argv, environ);
                (void)posix_spawn_file_actions_destroy(&actions);
        }
        (void)close(out[1]);
        if (r != 0) {
                (void)close(out[0]);
                return -r;
        }
        *ret_out = out[0];
        return 0;
}

static bool is_tar_after(const char *program, int fd)
{
        uint8_t head[BLOCK];
        size_t n = 0;
        ssize_t got = 1;
        AUTO_CLOSE int out = -1;
        pid_t pid;

        if (start_program(program, fd, &pid, &out) < 0)
                return true; /* said when it is needed: the program is missing */
        while (n < sizeof(head) && (got = read(out, head + n, sizeof(head) - n)) > 0)
                n += (size_t)got;
        close_fd(&out); /* which ends the program */
        (void)waitpid(pid, NULL, 0);
        return is_tar(head, n);
}

static bool is_tar_in_gzip(const uint8_t *p, size_t n)
{
        uint8_t head[BLOCK] = {0};
        z_stream z = {.next_in = (z_const Bytef *)p, .avail_in = (uInt)n, .next_out = head, .avail_out = sizeof(head)};
        int r;

        if (inflateInit2(&z, 15 + 16) != Z_OK)
                return false;
        r = inflate(&z, Z_SYNC_FLUSH);
        (void)inflateEnd(&z);
        return (r == Z_OK || r == Z_STREAM_END || r == Z_BUF_ERROR) && is_tar(head, sizeof(head) - z.avail_out);
}

const char *context_archive_program(int fd)
{
        static const struct {
                const char *magic;
                size_t n;
                const char *program;
        } known[] = {{"\xfd"
                      "7zXZ\0",
                      6, "xz"},
                     {"BZh", 3, "bzip2"},
                     {"\x28\xb5\x2f\xfd", 4, "zstd"}};
        uint8_t head[4096];
        ssize_t n = pread(fd, head, sizeof(head), 0);

        if (n <= 0)
                return NULL;
        if (is_tar(head, (size_t)n) || (n > 2 && head[0] == 0x1f && head[1] == 0x8b && is_tar_in_gzip(head, (size_t)n)))
                return "";
        for (size_t i = 0; i < ARRAY_LEN(known); i++)
                if ((size_t)n > known[i].n && memcmp(head, known[i].magic, known[i].n) == 0)
                        return is_tar_after(known[i].program, fd) ? known[i].program : NULL;
        return NULL;
}

static int copy_all(struct sink *s, int fd, const char *what)
{
        AUTO_FREE uint8_t *piece = malloc(PIECE);
        ssize_t n;
        int r = piece ? 0 : err_set(s->err, ERR_LIMIT, "out of memory");

        while (r == 0 && (n = read(fd, piece, PIECE)) != 0)
                r = n < 0 ? err_sys(s->err, -errno, "read '%s'", what) : sink_write(s, piece, (size_t)n);
        return r;
}

static int add_archive(struct sink *s, const struct context *c, const struct context_files *f)
{
        const char *path = f->at[0].path;
        AUTO_CLOSE int fd = openat(c->dir, path, O_RDONLY | O_CLOEXEC), out = -1;
        int status = 0, r;
        pid_t pid;

        if (fd < 0)
                return err_sys(s->err, -errno, "open '%s'", path);
        if (!f->program)
                return copy_all(s, fd, path);
        r = start_program(f->program, fd, &pid, &out);
        if (r == -ENOENT)
                return err_set(s->err, ERR_UNAVAILABLE, "the program '%s' is needed to unpack '%s'", f->program, path);
        if (r < 0)
                return err_sys(s->err, r, "start '%s'", f->program);
        r = copy_all(s, out, path);
        close_fd(&out);
        (void)waitpid(pid, &status, 0);
        if (r == 0 && status != 0)
                return err_set(s->err, ERR_INVALID, "%s cannot unpack '%s'", f->program, path);
        return r;
}

/* ---- the file ---- */

static int temporary_file(void)
{
        char name[] = "/tmp/sandglass-XXXXXX";
        int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

        if (fd >= 0)
                return fd;
        fd = mkostemp(name, O_CLOEXEC);
        if (fd >= 0)
                (void)unlink(name);
        return fd < 0 ? -errno : fd;
}

int context_archive(const struct context *c, const struct context_files *f, bool is_compressed, int *ret_fd,
                    struct err *err)
{
        AUTO_CLOSE int fd = temporary_file();
        AUTO_FREE uint8_t *piece = malloc(PIECE);
        struct sink s = {.fd = fd, .is_compressed = is_compressed, .piece = piece, .err = err};
        int r;

        if (fd < 0)
                return err_sys(err, fd, "make a temporary file in /tmp");
        if (!piece || (is_compressed && deflateInit2(&s.z, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, 0) != Z_OK))
                return err_set(err, ERR_LIMIT, "out of memory");
        r = f->kind == CONTEXT_ARCHIVE ? add_archive(&s, c, f) : add_all(&s, c, f);
        if (is_compressed)
                (void)deflateEnd(&s.z);
        if (r < 0)
                return r;
        if (lseek(fd, 0, SEEK_SET) < 0)
                return err_sys(err, -errno, "read the archive");
        *ret_fd = TAKE_FD(fd);
        return 0;
}
