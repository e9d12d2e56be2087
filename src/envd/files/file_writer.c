#include "envd/files/file_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "envd/files/file_metadata.h"
#include "envd/rpc/paths.h"

unsigned file_writer_fault_status(const struct fault *f)
{
        return f->code == CONNECT_INVALID_ARGUMENT ? 400 : f->code == CONNECT_RESOURCE_EXHAUSTED ? 507 : 500;
}

void file_writer_init(struct file_writer *w)
{
        *w = (struct file_writer){.fd = -1, .pending = BUF_INIT(FILE_WRITER_BUFFER)};
}

void file_writer_done(struct file_writer *w)
{
        close_fd(&w->fd);
        free(w->path);
        buf_done(&w->pending);
        file_writer_init(w);
}

static bool is_disk_full(int sys)
{
        return sys == ENOSPC || sys == EDQUOT;
}

static int file_writer_open_failed(struct fault *f, int sys, const char *path)
{
        if (is_disk_full(sys))
                return fault_sys(f, CONNECT_RESOURCE_EXHAUSTED, sys, "not enough inodes available: open %s", path);
        return fault_sys(f, CONNECT_INTERNAL, sys, "error opening file: open %s", path);
}

static int file_writer_make_dirs(const char *path, const struct user *u, bool keep_owner, struct fault *f)
{
        AUTO_FAULT struct fault why = {0};

        if (dirs_ensure_parent(path, u, keep_owner, &why) == 0)
                return 0;
        if (is_disk_full(why.sys))
                return fault_set(f, CONNECT_RESOURCE_EXHAUSTED, "not enough inodes available: %s", fault_text(&why));
        return fault_set(f, CONNECT_INTERNAL, "error ensuring directories: %s", fault_text(&why));
}

int file_writer_open(struct file_writer *w, char *path, const struct user *u, bool keep_owner, struct fault *f)
{
        AUTO_CLOSE int fd = -1;
        struct stat st;
        bool is_new;

        free(w->path);
        w->path = path;
        if (file_writer_make_dirs(path, u, keep_owner, f) < 0)
                return -1;
        is_new = stat(path, &st) < 0;
        if (!is_new && S_ISDIR(st.st_mode))
                return fault_set(f, CONNECT_INVALID_ARGUMENT, "path is a directory: %s", path);
        if (!is_new && S_ISFIFO(st.st_mode)) /* nobody may ever read from the pipe */
                return file_writer_open_failed(f, ENXIO, path);
        if (!is_new && !keep_owner && chown(path, u->uid, u->gid) < 0)
                return fault_sys(f, CONNECT_INTERNAL, errno, "error changing file ownership: chown %s", path);
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
        if (fd < 0)
                return file_writer_open_failed(f, errno, path);
        if (is_new && !keep_owner && fchown(fd, u->uid, u->gid) < 0)
                return fault_sys(f, CONNECT_INTERNAL, errno, "error changing file ownership: chown %s", path);
        w->fd = TAKE_FD(fd);
        return 0;
}

static int file_writer_write_all(struct file_writer *w, const void *p, size_t n, int64_t announced, struct fault *f)
{
        const char *at = p;

        while (n) {
                ssize_t r = write(w->fd, at, n);

                if (r < 0 && errno == EINTR)
                        continue;
                if (r < 0 && is_disk_full(errno) && announced >= 0)
                        return fault_set(f, CONNECT_RESOURCE_EXHAUSTED,
                                         "attempted to write %lld bytes: not enough disk space available",
                                         (long long)announced);
                if (r < 0 && is_disk_full(errno))
                        return fault_set(f, CONNECT_RESOURCE_EXHAUSTED, "not enough disk space available");
                if (r < 0)
                        return fault_sys(f, CONNECT_INTERNAL, errno, "error writing file: write %s", w->path);
                at += r;
                n -= (size_t)r;
        }
        return 0;
}

static int file_writer_flush(struct file_writer *w, int64_t announced, struct fault *f)
{
        int r = w->pending.len ? file_writer_write_all(w, buf_at(&w->pending), w->pending.len, announced, f) : 0;

        buf_reset(&w->pending);
        return r;
}

int file_writer_write(struct file_writer *w, struct str data, int64_t announced, struct fault *f)
{
        if (data.n <= buf_room(&w->pending))
                return buf_add(&w->pending, data.p, data.n) < 0
                               ? fault_set(f, CONNECT_INTERNAL, "error writing file: out of memory")
                               : 0;
        if (file_writer_flush(w, announced, f) < 0)
                return -1;
        if (data.n >= FILE_WRITER_BUFFER)
                return file_writer_write_all(w, data.p, data.n, announced, f);
        return file_writer_write(w, data, announced, f);
}

int file_writer_finish(struct file_writer *w, const json_t *metadata, int64_t announced, struct fault *f)
{
        int r;

        if (file_writer_flush(w, announced, f) < 0)
                return -1;
        r = file_metadata_replace(w->fd, metadata);
        if (is_disk_full(-r))
                return fault_sys(f, CONNECT_RESOURCE_EXHAUSTED, -r, "not enough space for file metadata: %s", w->path);
        if (r < 0)
                return fault_sys(f, CONNECT_INTERNAL, -r, "error writing file metadata: %s", w->path);
        close_fd(&w->fd);
        return 0;
}
