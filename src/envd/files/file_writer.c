#include "envd/files/file_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "envd/files/file_metadata.h"
#include "envd/rpc/paths.h"

unsigned target_fault_status(const struct fault *f)
{
        return f->code == CONNECT_INVALID_ARGUMENT ? 400 : f->code == CONNECT_RESOURCE_EXHAUSTED ? 507 : 500;
}

void target_init(struct target *t)
{
        *t = (struct target){.fd = -1, .pending = BUF_INIT(TARGET_BUFFER)};
}

void target_done(struct target *t)
{
        close_fd(&t->fd);
        free(t->path);
        buf_done(&t->pending);
        target_init(t);
}

static bool is_full(int sys)
{
        return sys == ENOSPC || sys == EDQUOT;
}

static int open_failed(struct fault *f, int sys, const char *path)
{
        if (is_full(sys))
                return fault_sys(f, CONNECT_RESOURCE_EXHAUSTED, sys, "not enough inodes available: open %s", path);
        return fault_sys(f, CONNECT_INTERNAL, sys, "error opening file: open %s", path);
}

static int make_dirs(const char *path, const struct user *u, bool keep_owner, struct fault *f)
{
        AUTO_FAULT struct fault why = {0};

        if (dirs_ensure_parent(path, u, keep_owner, &why) == 0)
                return 0;
        if (is_full(why.sys))
                return fault_set(f, CONNECT_RESOURCE_EXHAUSTED, "not enough inodes available: %s", fault_text(&why));
        return fault_set(f, CONNECT_INTERNAL, "error ensuring directories: %s", fault_text(&why));
}

int target_open(struct target *t, char *path, const struct user *u, bool keep_owner, struct fault *f)
{
        AUTO_CLOSE int fd = -1;
        struct stat st;
        bool is_new;

        free(t->path);
        t->path = path;
        if (make_dirs(path, u, keep_owner, f) < 0)
                return -1;
        is_new = stat(path, &st) < 0;
        if (!is_new && S_ISDIR(st.st_mode))
                return fault_set(f, CONNECT_INVALID_ARGUMENT, "path is a directory: %s", path);
        if (!is_new && S_ISFIFO(st.st_mode)) /* nobody may ever read it */
                return open_failed(f, ENXIO, path);
        if (!is_new && !keep_owner && chown(path, u->uid, u->gid) < 0)
                return fault_sys(f, CONNECT_INTERNAL, errno, "error changing file ownership: chown %s", path);
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
        if (fd < 0)
                return open_failed(f, errno, path);
        if (is_new && !keep_owner && fchown(fd, u->uid, u->gid) < 0)
                return fault_sys(f, CONNECT_INTERNAL, errno, "error changing file ownership: chown %s", path);
        t->fd = TAKE_FD(fd);
        return 0;
}

static int write_all(struct target *t, const void *p, size_t n, int64_t announced, struct fault *f)
{
        const char *at = p;

        while (n) {
                ssize_t r = write(t->fd, at, n);

                if (r < 0 && errno == EINTR)
                        continue;
                if (r < 0 && is_full(errno) && announced >= 0)
                        return fault_set(f, CONNECT_RESOURCE_EXHAUSTED,
                                         "attempted to write %lld bytes: not enough disk space available",
                                         (long long)announced);
                if (r < 0 && is_full(errno))
                        return fault_set(f, CONNECT_RESOURCE_EXHAUSTED, "not enough disk space available");
                if (r < 0)
                        return fault_sys(f, CONNECT_INTERNAL, errno, "error writing file: write %s", t->path);
                at += r;
                n -= (size_t)r;
        }
        return 0;
}

static int flush(struct target *t, int64_t announced, struct fault *f)
{
        int r = t->pending.len ? write_all(t, buf_at(&t->pending), t->pending.len, announced, f) : 0;

        buf_reset(&t->pending);
        return r;
}

int target_write(struct target *t, struct str data, int64_t announced, struct fault *f)
{
        if (data.n <= buf_room(&t->pending))
                return buf_add(&t->pending, data.p, data.n) < 0
                               ? fault_set(f, CONNECT_INTERNAL, "error writing file: out of memory")
                               : 0;
        if (flush(t, announced, f) < 0)
                return -1;
        if (data.n >= TARGET_BUFFER)
                return write_all(t, data.p, data.n, announced, f);
        return target_write(t, data, announced, f);
}

int target_finish(struct target *t, const json_t *metadata, int64_t announced, struct fault *f)
{
        int r;

        if (flush(t, announced, f) < 0)
                return -1;
        r = metadata_replace(t->fd, metadata);
        if (is_full(-r))
                return fault_sys(f, CONNECT_RESOURCE_EXHAUSTED, -r, "not enough space for file metadata: %s", t->path);
        if (r < 0)
                return fault_sys(f, CONNECT_INTERNAL, -r, "error writing file metadata: %s", t->path);
        close_fd(&t->fd);
        return 0;
}
