/* image_sums.h - the large images of a checkpoint, summed up while CRIU still writes them, by a thread that is told of each write.
 *
 * CRIU only ever adds to them.  On the way stretches of zeros are taken out of them before they reach the disk (the file
 * reads the same), and the disk is set to work, so that little is left to wait for in the end. */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#define IMAGE_SUMS_FILES_MAX                                                                                           \
        64 /* what is beyond is summed up afterwards, as all of it is where this cannot be started */
#define IMAGE_SUMS_NAME_MAX 32

struct image_sums_file {
        char name[IMAGE_SUMS_NAME_MAX];
        int fd;
        uint64_t done, pushed; /* bytes summed up, and given to the disk */
        uint32_t crc;          /* of the former */
};

struct image_sums {
        bool is_pushing;
        int images, news, stop;
        pthread_t thread;
        bool is_running;
        struct image_sums_file files[IMAGE_SUMS_FILES_MAX];
        size_t count;
};

/* Follow what is written below the directory `images` (borrowed).  is_pushing: to the disk, too.  Never fails: without it
 * the rest only takes longer. */
void image_sums_start(struct image_sums *s, int images, bool is_pushing);
void image_sums_stop(struct image_sums *s); /* nobody writes any more; once */
/* How much of this file is summed up, and to what; 0: nothing, it was not seen. */
uint64_t image_sums_of(const struct image_sums *s, const struct stat *file, uint32_t *ret_crc);
void image_sums_done(struct image_sums *s); /* takes a while; one that ends anyhow need not */

/* Take stretches of zeros of at least 64 KiB out of p[0..n), which lies at `at` in the file. */
void image_sums_punch(int fd, uint64_t at, const void *p, uint64_t n);
