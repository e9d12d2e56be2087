/* forgetful_disk - a disk with a volatile write cache, for tests of power cuts.
 *
 *     forgetful_disk IMAGE DIRECTORY
 *
 * Shows one file, DIRECTORY/disk, with the content of IMAGE, as a FUSE file system: put a loop device on that file and a
 * real file system on the loop device.  What is written stays in memory, as in the cache of a disk, until the kernel asks
 * for a flush (a loop device turns every barrier of its file system into an fsync of the file); only then does it go to
 * IMAGE.  Orders come on stdin, one per line:
 *
 *     cut SEED PERCENT    the power is cut: of what was written since the last flush that share survives, picked by the
 *                         seed; everything asked from now on fails.  Answered with a line of counts.
 *
 * A disk may write what is in its cache at any time and in any order, and writes sectors whole: so does the share that
 * survives.  The end of stdin unmounts DIRECTORY and ends the program. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/auto.h"

#define BLOCK 4096u
#define SECTOR 512u
#define DATA_MAX (1u << 20) /* of one request */
#define CACHE_BLOCKS_MAX (1u << 16)
#define NODE_DISK 2u
#define NAME "disk"

struct disk {
        int fuse, image;
        const char *dir;
        uint64_t size;
        uint8_t **cached; /* by block; NULL: as the image has it */
        uint64_t *dirty;  /* the blocks that are cached, in the order of their first write */
        size_t dirty_count;
        bool is_cut;
        uint8_t *in, *out; /* one request, the data of one answer */
};

static _Noreturn void die(const char *what)
{
        fprintf(stderr, "forgetful_disk: %s: %s\n", what, strerror(errno));
        exit(1);
}

/* ------------------------------------------------------------- the cache */

static void write_back(struct disk *d, uint64_t block, size_t at, size_t n)
{
        if (pwrite(d->image, d->cached[block] + at, n, (off_t)(block * BLOCK + at)) != (ssize_t)n)
                die("write the image");
}

static void forget(struct disk *d)
{
        for (size_t i = 0; i < d->dirty_count; i++) {
                free(d->cached[d->dirty[i]]);
                d->cached[d->dirty[i]] = NULL;
        }
        d->dirty_count = 0;
}

static void flush(struct disk *d)
{
        for (size_t i = 0; i < d->dirty_count; i++)
                write_back(d, d->dirty[i], 0, BLOCK);
        forget(d);
}

static void read_block(const struct disk *d, uint64_t block, uint8_t *out)
{
        ssize_t n;

        if (d->cached[block]) {
                memcpy(out, d->cached[block], BLOCK);
                return;
        }
        n = pread(d->image, out, BLOCK, (off_t)(block * BLOCK));
        if (n < 0)
                die("read the image");
        memset(out + n, 0, BLOCK - (size_t)n);
}

static uint8_t *block_to_write(struct disk *d, uint64_t block)
{
        uint8_t *p = d->cached[block];

        if (p)
                return p;
        if (d->dirty_count == CACHE_BLOCKS_MAX)
                flush(d); /* as every cache does that is full */
        p = malloc(BLOCK);
        if (!p)
                die("allocate");
        read_block(d, block, p);
        d->cached[block] = p;
        d->dirty[d->dirty_count++] = block;
        return p;
}

static void disk_write(struct disk *d, uint64_t at, const uint8_t *p, size_t n)
{
        while (n > 0) {
                size_t in_block = at % BLOCK, part = BLOCK - in_block < n ? BLOCK - in_block : n;

                memcpy(block_to_write(d, at / BLOCK) + in_block, p, part);
                at += part, p += part, n -= part;
        }
}

static void disk_read(const struct disk *d, uint64_t at, uint8_t *p, size_t n)
{
        uint8_t block[BLOCK];

        while (n > 0) {
                size_t in_block = at % BLOCK, part = BLOCK - in_block < n ? BLOCK - in_block : n;

                read_block(d, at / BLOCK, block);
                memcpy(p, block + in_block, part);
                at += part, p += part, n -= part;
        }
}

/* xorshift: the same seed cuts the same way. */
static unsigned next_random(uint64_t *seed)
{
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        return (unsigned)(*seed >> 33);
}

/* Most blocks survive or do not; one in eight is torn between its sectors. */
static void cut(struct disk *d, uint64_t seed, unsigned percent)
{
        size_t kept = 0, torn = 0, all = d->dirty_count;

        seed = seed * 2654435769u + 88172645463325252u;
        for (size_t i = 0; i < all; i++) {
                if (percent > 0 && percent < 100 && next_random(&seed) % 8 == 0) {
                        for (size_t at = 0; at < BLOCK; at += SECTOR)
                                if (next_random(&seed) % 100 < percent)
                                        write_back(d, d->dirty[i], at, SECTOR);
                        torn++;
                } else if (next_random(&seed) % 100 < percent) {
                        write_back(d, d->dirty[i], 0, BLOCK);
                        kept++;
                }
        }
        forget(d);
        d->is_cut = true;
        printf("cut kept=%zu torn=%zu lost=%zu\n", kept, torn, all - kept - torn);
        (void)fflush(stdout);
}

/* ------------------------------------------------------------- FUSE */

static void answer(const struct disk *d, uint64_t unique, int error, const void *p, size_t n)
{
        struct fuse_out_header head = {.len = (uint32_t)(sizeof(head) + n), .error = error, .unique = unique};
        struct iovec parts[] = {{&head, sizeof(head)}, {(void *)(uintptr_t)p, n}};

        if (writev(d->fuse, parts, n > 0 ? 2 : 1) < 0 && errno != ENOENT && errno != ENODEV)
                die("answer the kernel"); /* ENOENT: whoever asked was interrupted */
}

static struct fuse_attr attributes(const struct disk *d, uint64_t node)
{
        bool is_disk = node == NODE_DISK;

        return (struct fuse_attr){.ino = node,
                                  .size = is_disk ? d->size : 0,
                                  .blocks = is_disk ? d->size / 512 : 0,
                                  .mode = is_disk ? S_IFREG | 0600 : S_IFDIR | 0700,
                                  .nlink = is_disk ? 1 : 2,
                                  .blksize = BLOCK};
}

static void do_init(const struct disk *d, const struct fuse_in_header *h, const struct fuse_init_in *in)
{
        struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION,
                                    .minor = FUSE_KERNEL_MINOR_VERSION < in->minor ? FUSE_KERNEL_MINOR_VERSION
                                                                                   : in->minor,
                                    .max_readahead = in->max_readahead,
                                    .flags = in->flags & (FUSE_BIG_WRITES | FUSE_MAX_PAGES | FUSE_ASYNC_READ),
                                    .max_write = DATA_MAX,
                                    .max_pages = DATA_MAX / BLOCK,
                                    .time_gran = 1};

        answer(d, h->unique, 0, &out, sizeof(out));
}

static void do_lookup(const struct disk *d, const struct fuse_in_header *h, const char *name)
{
        struct fuse_entry_out out = {.nodeid = NODE_DISK, .attr = attributes(d, NODE_DISK)};

        if (h->nodeid == FUSE_ROOT_ID && strcmp(name, NAME) == 0)
                answer(d, h->unique, 0, &out, sizeof(out));
        else
                answer(d, h->unique, -ENOENT, NULL, 0);
}

static void do_getattr(const struct disk *d, const struct fuse_in_header *h)
{
        struct fuse_attr_out out = {.attr = attributes(d, h->nodeid)};

        answer(d, h->unique, 0, &out, sizeof(out));
}

/* Without the kernel's page cache between us and the loop device. */
static void do_open(const struct disk *d, const struct fuse_in_header *h)
{
        struct fuse_open_out out = {.open_flags = FOPEN_DIRECT_IO};

        answer(d, h->unique, 0, &out, sizeof(out));
}

static bool is_within(const struct disk *d, uint64_t at, size_t n)
{
        return n <= DATA_MAX && at <= d->size && n <= d->size - at;
}

static void do_read(const struct disk *d, const struct fuse_in_header *h, const struct fuse_read_in *in)
{
        size_t n = in->size;

        if (in->offset < d->size && n > d->size - in->offset)
                n = d->size - in->offset;
        if (d->is_cut || !is_within(d, in->offset, n)) {
                answer(d, h->unique, -EIO, NULL, 0);
                return;
        }
        disk_read(d, in->offset, d->out, n);
        answer(d, h->unique, 0, d->out, n);
}

static void do_write(struct disk *d, const struct fuse_in_header *h, const struct fuse_write_in *in)
{
        struct fuse_write_out out = {.size = in->size};

        if (d->is_cut || !is_within(d, in->offset, in->size)) {
                answer(d, h->unique, -EIO, NULL, 0);
                return;
        }
        disk_write(d, in->offset, (const uint8_t *)(in + 1), in->size);
        answer(d, h->unique, 0, &out, sizeof(out));
}

static void do_flush(struct disk *d, const struct fuse_in_header *h)
{
        if (!d->is_cut)
                flush(d);
        answer(d, h->unique, d->is_cut ? -EIO : 0, NULL, 0);
}

static void do_request(struct disk *d)
{
        const struct fuse_in_header *h = (const void *)d->in;
        const void *body = h + 1;

        switch (h->opcode) {
        case FUSE_INIT: do_init(d, h, body); break;
        case FUSE_LOOKUP: do_lookup(d, h, body); break;
        case FUSE_SETATTR: /* nothing that could be set is ever asked for */
        case FUSE_GETATTR: do_getattr(d, h); break;
        case FUSE_OPEN: do_open(d, h); break;
        case FUSE_READ: do_read(d, h, body); break;
        case FUSE_WRITE: do_write(d, h, body); break;
        case FUSE_FSYNC: do_flush(d, h); break;
        case FUSE_FLUSH: /* somebody closes the file: no barrier */
        case FUSE_RELEASE: answer(d, h->unique, 0, NULL, 0); break;
        case FUSE_FORGET:
        case FUSE_BATCH_FORGET:
        case FUSE_INTERRUPT: break; /* not to be answered */
        default: answer(d, h->unique, -ENOSYS, NULL, 0);
        }
}

/* False: the file system was unmounted. */
static bool on_kernel(struct disk *d)
{
        ssize_t n = read(d->fuse, d->in, DATA_MAX + BLOCK);

        if (n < 0 && errno == ENODEV)
                return false;
        if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOENT))
                return true;
        if (n < (ssize_t)sizeof(struct fuse_in_header))
                die("read from the kernel");
        do_request(d);
        return true;
}

/* ------------------------------------------------------------- orders */

/* False: stdin has ended. */
static bool on_order(struct disk *d)
{
        char line[128];
        ssize_t n = read(STDIN_FILENO, line, sizeof(line) - 1);
        unsigned long long seed;
        unsigned percent;

        if (n <= 0)
                return false;
        line[n] = '\0';
        if (sscanf(line, "cut %llu %u", &seed, &percent) == 2)
                cut(d, seed, percent);
        else
                fprintf(stderr, "forgetful_disk: not an order: %s", line);
        return true;
}

static void serve(struct disk *d)
{
        struct pollfd from[] = {{.fd = d->fuse, .events = POLLIN}, {.fd = STDIN_FILENO, .events = POLLIN}};

        for (;;) {
                if (poll(from, ARRAY_LEN(from), -1) < 0 && errno != EINTR)
                        die("poll");
                if (from[0].revents && !on_kernel(d))
                        return;
                if (from[1].revents && !on_order(d)) {
                        (void)umount2(d->dir, MNT_DETACH);
                        from[1].fd = -1; /* and serve whoever still has it open */
                }
        }
}

int main(int argc, char **argv)
{
        struct disk d = {.dir = argc == 3 ? argv[2] : NULL};
        char options[64];
        struct stat st;

        if (argc != 3) {
                fprintf(stderr, "usage: forgetful_disk IMAGE DIRECTORY\n");
                return 2;
        }
        d.image = open(argv[1], O_RDWR | O_CLOEXEC);
        if (d.image < 0 || fstat(d.image, &st) < 0)
                die(argv[1]);
        d.size = (uint64_t)st.st_size / BLOCK * BLOCK;
        d.cached = calloc(d.size / BLOCK + 1, sizeof(*d.cached));
        d.dirty = calloc(CACHE_BLOCKS_MAX, sizeof(*d.dirty));
        d.in = malloc(DATA_MAX + BLOCK);
        d.out = malloc(DATA_MAX);
        d.fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
        if (!d.cached || !d.dirty || !d.in || !d.out || d.fuse < 0)
                die("/dev/fuse");
        (void)snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", d.fuse);
        if (mount("forgetful", d.dir, "fuse", MS_NOSUID | MS_NODEV, options) < 0)
                die(d.dir);
        printf("ready\n");
        (void)fflush(stdout);
        serve(&d);
        return 0;
}
