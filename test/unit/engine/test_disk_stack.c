/* A disk_stack: a stack longer than its memory gives back what was put on it, in reverse. */
#include <fcntl.h>
#include <errno.h>
#include <tap.h>
#include <unistd.h>

#include "engine/layers/disk_stack.h"

static void gives_back_in_reverse(void)
{
        int dir = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct disk_stack s;
        uint32_t piece[250], n = 0, rounds = 12000; /* 12 MB, one in memory */

        CHECK_INT(disk_stack_init(&s, dir), ==, 0);
        for (uint32_t i = 0; i < rounds; i++) {
                for (uint32_t k = 0; k < 250; k++)
                        piece[k] = i ^ k;
                CHECK_INT(disk_stack_push(&s, piece, sizeof(piece)), ==, 0);
                if (i % 3 == 2) /* up and down over the edges between memory and file */
                        CHECK_INT(disk_stack_pop(&s, piece, sizeof(piece)), ==, 0);
        }
        for (uint32_t i = rounds; i-- > 0;) {
                if (i % 3 == 2)
                        continue;
                CHECK_INT(disk_stack_pop(&s, piece, sizeof(piece)), ==, 0);
                CHECK(piece[0] == i && piece[249] == (i ^ 249));
                n++;
        }
        CHECK_INT(n, ==, 8000);
        CHECK_INT(disk_stack_len(&s), ==, 0);
        disk_stack_done(&s);
        (void)close(dir);
}

static void says_when_it_is_empty(void)
{
        struct disk_stack s;
        char c[2] = "x";

        CHECK_INT(disk_stack_init(&s, -1), ==, 0);
        CHECK_INT(disk_stack_pop(&s, c, 1), ==, -ENODATA);
        CHECK_INT(disk_stack_push(&s, c, 1), ==, 0);
        CHECK_INT(disk_stack_pop(&s, c, 2), ==, -ENODATA);
        CHECK_INT(disk_stack_pop(&s, c, 1), ==, 0);
        CHECK_INT(disk_stack_push(&s, c, DISK_STACK_PIECE_MAX + 1), ==, -EINVAL);
        disk_stack_done(&s);
}

static void says_when_there_is_no_disk(void)
{
        static const char piece[DISK_STACK_PIECE_MAX];
        struct disk_stack s;
        int r = 0;

        CHECK_INT(disk_stack_init(&s, -1), ==, 0);
        for (unsigned i = 0; i < 100 && r == 0; i++)
                r = disk_stack_push(&s, piece, sizeof(piece));
        CHECK_INT(r, ==, -EBADF);
        disk_stack_done(&s);
}

int main(void)
{
        RUN(gives_back_in_reverse);
        RUN(says_when_it_is_empty);
        RUN(says_when_there_is_no_disk);
        return tap_done();
}
