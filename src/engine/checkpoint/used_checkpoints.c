#include "engine/checkpoint/used_checkpoints.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/str.h"

#define NAME "used-checkpoints"
#define BLOCK 512u /* written whole or not at all */
#define BLOCKS 4096u
#define SIZE ((off_t)BLOCKS * BLOCK)
#define PENDING_MAX 256u /* turns that job processes of the last engine may have and did not use yet */

static int fill(int fd)
{
        static const char zeros[64 * BLOCK];

        for (off_t at = 0; at < SIZE; at += (off_t)sizeof(zeros))
                if (pwrite(fd, zeros, sizeof(zeros), at) != (ssize_t)sizeof(zeros))
                        return errno ? -errno : -EIO;
        return fsync(fd) < 0 ? -errno : 0;
}

/* Blocks that were never written would have to be allocated in the journal. */
static int make(int data_dir)
{
        AUTO_CLOSE int fd = openat(data_dir, NAME, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        int r = fd < 0 ? -errno : fill(fd);

        if (r == 0 && fsync(data_dir) < 0)
                r = -errno;
        if (r < 0)
                (void)unlinkat(data_dir, NAME, 0); /* others need the room more */
        return r;
}

/* "checkpoint boot turn"; false: an empty one. */
static bool parse(const char block[BLOCK], struct str *checkpoint, struct str *boot_id, uint64_t *turn)
{
        struct str rest = {block, strnlen(block, BLOCK)}, number;

        return str_cut(&rest, ' ', checkpoint) && str_cut(&rest, ' ', boot_id) && str_cut(&rest, '\n', &number) &&
               parse_u64(number, 0, UINT64_MAX, turn) == 0;
}

/* Until `each` says that it has seen enough. */
static void each_block(int fd, bool (*each)(off_t at, const char block[BLOCK], void *arg), void *arg)
{
        char blocks[64 * BLOCK];
        ssize_t n;

        for (off_t at = 0; (n = pread(fd, blocks, sizeof(blocks), at)) > 0; at += n)
                for (ssize_t i = 0; i + (ssize_t)BLOCK <= n; i += BLOCK)
                        if (!each(at + i, blocks + i, arg))
                                return;
}

static bool find_last(off_t at, const char block[BLOCK], void *arg)
{
        struct str checkpoint, boot_id;
        uint64_t *last = arg, turn;

        (void)at;
        if (parse(block, &checkpoint, &boot_id, &turn) && turn > *last)
                *last = turn;
        return true;
}

int used_checkpoints_open(int data_dir, int *ret, uint64_t *ret_turn, struct err *err)
{
        struct stat st = {0};
        uint64_t last = 0;
        int fd, r = 0;

        if (fstatat(data_dir, NAME, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_size < SIZE)
                r = make(data_dir);
        if (r < 0)
                return err_sys(err, r, "make " NAME);
        fd = openat(data_dir, NAME, O_RDWR | O_DSYNC | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return err_sys(err, -errno, "open " NAME);
        each_block(fd, find_last, &last);
        *ret = fd;
        *ret_turn = last + PENDING_MAX;
        return 0;
}

static int write_block(int fd, off_t at, const char block[BLOCK], struct err *err)
{
        ssize_t n = pwrite(fd, block, BLOCK, at);

        return n == (ssize_t)BLOCK ? 0 : err_sys(err, n < 0 ? -errno : -EIO, "write " NAME);
}

int used_checkpoints_mark(int fd, uint64_t turn, const char *checkpoint, const char *boot_id, struct err *err)
{
        char block[BLOCK] = "";

        (void)snprintf(block, sizeof(block), "%s %s %llu\n", checkpoint, boot_id, (unsigned long long)turn);
        return write_block(fd, (off_t)(turn % BLOCKS) * BLOCK, block, err);
}

struct search {
        const char *checkpoint;
        const char *boot_id;
        enum checkpoint_use found;
        off_t at;
};

static bool find_checkpoint(off_t at, const char block[BLOCK], void *arg)
{
        struct search *s = arg;
        struct str checkpoint, boot_id;
        uint64_t turn;

        if (!parse(block, &checkpoint, &boot_id, &turn) || !str_eq(checkpoint, str_of(s->checkpoint)))
                return true;
        s->found = str_eq(boot_id, str_of(s->boot_id)) ? CHECKPOINT_USED_NOW : CHECKPOINT_USED_BEFORE;
        s->at = at;
        return s->found != CHECKPOINT_USED_BEFORE;
}

static struct search search(int fd, const char *checkpoint, const char *boot_id)
{
        struct search s = {.checkpoint = checkpoint, .boot_id = boot_id};

        if (checkpoint[0])
                each_block(fd, find_checkpoint, &s);
        return s;
}

enum checkpoint_use used_checkpoints_find(int fd, const char *checkpoint, const char *boot_id)
{
        return search(fd, checkpoint, boot_id).found;
}

int used_checkpoints_unmark(int fd, const char *checkpoint, struct err *err)
{
        static const char empty[BLOCK];
        struct search s = search(fd, checkpoint, "");

        return s.found == CHECKPOINT_UNUSED ? 0 : write_block(fd, s.at, empty, err);
}

int used_checkpoints_flush(int dir, struct err *err)
{
        return fsync(dir) < 0 ? err_sys(err, -errno, "flush its directory") : 0;
}
