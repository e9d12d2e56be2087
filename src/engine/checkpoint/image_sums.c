#include "engine/checkpoint/image_sums.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "sys/fs.h"
#include "wire/crc32c.h"

#define PIECE (1u << 20)  /* summed up at a time, while more is to come */
#define PUSH (8u << 20)   /* given to the disk at a time */
#define ZEROS (64u << 10) /* at least so many make a hole */

/* ------------------------------------------------------------- zeros */

static bool is_zero(const uint8_t *p, uint64_t n)
{
        return p[0] == 0 && memcmp(p, p + 1, n - 1) == 0;
}

void image_sums_punch(int fd, uint64_t at, const void *p, uint64_t n)
{
        uint64_t from = 0, to, i = 0;

        while (i < n) {
                uint64_t len = n - i < ZEROS ? n - i : ZEROS;
                bool is_hole = len == ZEROS && is_zero((const uint8_t *)p + i, len);

                i += len;
                if (is_hole && i < n)
                        continue;
                to = is_hole ? i : i - len; /* where the zeros end */
                if (to > from)              /* a file system that cannot has them written */
                        (void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(at + from),
                                        (off_t)(to - from));
                from = i;
        }
}

/* ------------------------------------------------------------- one file */

static int take_piece(struct image_sums_file *f, uint64_t n)
{
        void *p = mmap(NULL, n, PROT_READ, MAP_SHARED | MAP_POPULATE, f->fd, (off_t)f->done);

        if (p == MAP_FAILED)
                return -errno;
        f->crc = crc32c(f->crc, p, n);
        image_sums_punch(f->fd, f->done, p, n);
        (void)munmap(p, n);
        f->done += n;
        return 0;
}

static void push(struct image_sums_file *f, bool is_last)
{
        if (f->done - f->pushed < PUSH && !is_last)
                return;
        (void)sync_file_range(f->fd, (off_t)f->pushed, (off_t)(f->done - f->pushed), SYNC_FILE_RANGE_WRITE);
        f->pushed = f->done;
}

/* As far as it goes in whole pieces; to the end if there is no more to come. */
static void go_on(const struct image_sums *s, struct image_sums_file *f, bool is_last)
{
        struct stat st;
        int r = fstat(f->fd, &st);

        while (r == 0 && (uint64_t)st.st_size > f->done) {
                uint64_t left = (uint64_t)st.st_size - f->done;

                if (left < PIECE && !is_last)
                        return;
                r = take_piece(f, left < PIECE ? left : PIECE);
                if (s->is_pushing)
                        push(f, is_last && left <= PIECE);
        }
}

/* ------------------------------------------------------------- what is told */

static struct image_sums_file *find(struct image_sums *s, const char *name)
{
        struct image_sums_file *f;
        struct str n = str_of(name);

        for (size_t i = 0; i < s->count; i++)
                if (strcmp(s->files[i].name, name) == 0)
                        return &s->files[i];
        if (s->count == IMAGE_SUMS_FILES_MAX || n.n >= IMAGE_SUMS_NAME_MAX || !str_starts(n, "pages-") ||
            !str_ends(n, ".img"))
                return NULL;
        f = &s->files[s->count];
        *f = (struct image_sums_file){.fd = sys_open_beneath(s->images, name, O_RDWR, 0)};
        if (f->fd < 0)
                return NULL;
        memcpy(f->name, name, n.n + 1);
        s->count++;
        return f;
}

static void hear(struct image_sums *s)
{
        _Alignas(struct inotify_event) char text[4096];
        const struct inotify_event *e;
        struct image_sums_file *f;
        ssize_t n = read(s->news, text, sizeof(text));

        for (ssize_t at = 0; at < n; at += (ssize_t)(sizeof(*e) + e->len)) {
                e = (const void *)(text + at);
                f = e->len ? find(s, e->name) : NULL;
                if (f)
                        go_on(s, f, false);
        }
}

static void *follow(void *arg)
{
        struct image_sums *s = arg;
        struct pollfd p[] = {{.fd = s->news, .events = POLLIN}, {.fd = s->stop, .events = POLLIN}};

        while (!(p[1].revents & POLLIN)) {
                int n = poll(p, 2, -1);

                if (n < 0 && errno != EINTR)
                        break;
                if (n > 0 && (p[0].revents & POLLIN))
                        hear(s);
        }
        for (size_t i = 0; i < s->count; i++)
                go_on(s, &s->files[i], true);
        return NULL;
}

void image_sums_start(struct image_sums *s, int images, bool is_pushing)
{
        char path[32];

        *s = (struct image_sums){.images = images, .is_pushing = is_pushing, .stop = eventfd(0, EFD_CLOEXEC)};
        s->news = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", images);
        if (s->stop >= 0 && s->news >= 0 && inotify_add_watch(s->news, path, IN_MODIFY) >= 0)
                s->is_running = pthread_create(&s->thread, NULL, follow, s) == 0;
}

void image_sums_stop(struct image_sums *s)
{
        const uint64_t one = 1;

        if (!s->is_running)
                return;
        s->is_running = false;
        (void)!write(s->stop, &one, sizeof(one)); /* its counter cannot overflow */
        (void)pthread_join(s->thread, NULL);
}

/* The same inode: one of that name may have been written anew. */
uint64_t image_sums_of(const struct image_sums *s, const struct stat *file, uint32_t *ret_crc)
{
        struct stat st;

        for (size_t i = 0; i < s->count; i++) {
                const struct image_sums_file *f = &s->files[i];

                if (fstat(f->fd, &st) < 0 || st.st_ino != file->st_ino || st.st_dev != file->st_dev ||
                    f->done > (uint64_t)file->st_size)
                        continue;
                if (f->done % PIECE != 0 && f->done != (uint64_t)file->st_size)
                        break; /* nobody can go on in the middle of a page */
                *ret_crc = f->crc;
                return f->done;
        }
        *ret_crc = 0;
        return 0;
}

void image_sums_done(struct image_sums *s)
{
        image_sums_stop(s);
        for (size_t i = 0; i < s->count; i++)
                close_fd(&s->files[i].fd);
        s->count = 0;
        close_fd(&s->news);
        close_fd(&s->stop);
}
