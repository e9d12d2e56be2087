/* place_file.c - the bytes of a file: large writes, and holes where there are zeros.  The file is new, so what is not written
 * is zero. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "envd/build/place.h"

#define BLOCK 4096u

int place_file_begin(struct place *p, const struct tar_entry *e, const char *base, const char *path, struct err *err)
{
        int fd = openat(p->parent, base, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600), r;

        if (fd < 0 && errno == EEXIST) {
                r = place_room_for_file(p, base, path, err);
                if (r)
                        return r < 0 ? r : 0;
                fd = openat(p->parent, base, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        }
        if (fd < 0)
                return err_sys(err, -errno, "make '/%.150s'", path);
        p->file = fd;
        p->file_size = e->size;
        p->file_end = 0;
        place_file_xattrs(p, e, base, path);
        return 0;
}

static bool is_zero(const char *p, size_t n)
{
        return p[0] == '\0' && memcmp(p, p + 1, n - 1) == 0;
}

static int write_run(struct place *p, const char *bytes, size_t n, uint64_t offset)
{
        p->file_end = offset + n;
        while (n) {
                ssize_t done = pwrite(p->file, bytes, n, (off_t)offset);

                if (done < 0 && errno == EINTR)
                        continue;
                if (done < 0)
                        return -errno;
                bytes += done;
                offset += (uint64_t)done;
                n -= (size_t)done;
        }
        return 0;
}

/* How many bytes from `at` belong together: pieces of blocks that are all zero (*ret_zero), or that are not. */
static size_t find_run(const char *at, size_t n, uint64_t offset, bool *ret_zero)
{
        size_t run = 0, piece = BLOCK - (size_t)(offset % BLOCK);

        while (run < n) {
                size_t most = piece < n - run ? piece : n - run;
                bool zero = is_zero(at + run, most);

                if (run == 0)
                        *ret_zero = zero;
                else if (zero != *ret_zero)
                        break;
                run += most;
                piece = BLOCK;
        }
        return run;
}

int place_write(struct place *p, const struct tar_data *data, struct err *err)
{
        const char *at = data->bytes.p;
        size_t n = data->bytes.n;
        uint64_t offset = data->offset;

        p->bytes += n;
        while (p->file >= 0 && n) {
                bool is_hole;
                size_t run = find_run(at, n, offset, &is_hole);
                int r = is_hole ? 0 : write_run(p, at, run, offset);

                if (r < 0)
                        return err_sys(err, r, "write a file of the archive");
                at += run;
                n -= run;
                offset += run;
        }
        return 0;
}

int place_end(struct place *p, const struct tar_entry *e, struct err *err)
{
        struct timespec times[2] = {{e->mtime_s, e->mtime_ns}, {e->mtime_s, e->mtime_ns}};
        AUTO_CLOSE int fd = TAKE_FD(p->file);
        int r = 0;

        if (fd < 0)
                return 0;
        if (p->file_end < p->file_size && ftruncate(fd, (off_t)p->file_size) < 0)
                r = -errno;
        if (r == 0)
                r = place_file_owner(p, e, fd, e->name);
        if (r == 0 && p->rules.keeps_times)
                (void)futimens(fd, times);
        return r < 0 ? err_sys(err, r, "finish '/%.150s'", e->name) : 0;
}
