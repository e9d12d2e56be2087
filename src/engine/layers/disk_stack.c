#include "engine/layers/disk_stack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/auto.h"

#define HALF (512u << 10) /* moved between memory and file at once */
#define WHOLE (2 * HALF)

int disk_stack_init(struct disk_stack *s, int dir)
{
        *s = (struct disk_stack){.dir = dir, .fd = -1, .mem = malloc(WHOLE)};
        return s->mem ? 0 : -ENOMEM;
}

void disk_stack_done(struct disk_stack *s)
{
        close_fd(&s->fd);
        free(s->mem);
        s->mem = NULL;
}

static int write_bottom(struct disk_stack *s, size_t n)
{
        size_t done = 0;

        if (s->fd < 0)
                s->fd = openat(s->dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        if (s->fd < 0)
                return -errno;
        while (done < n) {
                ssize_t w = pwrite(s->fd, s->mem + done, n - done, (off_t)(s->file + done));

                if (w < 0)
                        return -errno;
                done += (size_t)w;
        }
        s->file += n;
        s->len -= n;
        memmove(s->mem, s->mem + n, s->len);
        return 0;
}

static int read_bottom(struct disk_stack *s)
{
        size_t n = s->file < HALF ? (size_t)s->file : HALF, done = 0;

        memmove(s->mem + n, s->mem, s->len);
        while (done < n) {
                ssize_t r = pread(s->fd, s->mem + done, n - done, (off_t)(s->file - n + done));

                if (r <= 0)
                        return r < 0 ? -errno : -EIO;
                done += (size_t)r;
        }
        s->file -= n;
        s->len += n;
        return 0;
}

int disk_stack_push(struct disk_stack *s, const void *p, size_t n)
{
        int r = 0;

        if (n > DISK_STACK_PIECE_MAX)
                return -EINVAL;
        if (s->len + n > WHOLE)
                r = write_bottom(s, HALF);
        if (r < 0)
                return r;
        memcpy(s->mem + s->len, p, n);
        s->len += n;
        return 0;
}

int disk_stack_pop(struct disk_stack *s, void *p, size_t n)
{
        int r = 0;

        if (n > DISK_STACK_PIECE_MAX)
                return -EINVAL;
        if (disk_stack_len(s) < n)
                return -ENODATA;
        if (s->len < n)
                r = read_bottom(s);
        if (r < 0)
                return r;
        s->len -= n;
        memcpy(p, s->mem + s->len, n);
        return 0;
}
