/* tar_header.h - one block of 512 bytes as a header: its fields as numbers and texts.  For tar_read.c and tar_write.c. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "wire/tar/tar.h"

struct tar_header { /* the layout of ustar; everything is a byte, so nothing is padded */
        char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100];
        char magic[6], version[2], uname[32], gname[32], major[8], minor[8], prefix[155], rest[12];
};
_Static_assert(sizeof(struct tar_header) == TAR_BLOCK_BYTES, "no padding");

/* Old GNU sparse files: in place of `prefix`, and in further blocks. */
#define TAR_GNU_SPARSES 4
#define TAR_GNU_SPARSES_MORE 21
struct tar_gnu_sparse {
        char offset[12], length[12];
};
struct tar_gnu_tail { /* at byte 345 of the header */
        char atime[12], ctime[12], offset[12], longnames[4], unused;
        struct tar_gnu_sparse sparse[TAR_GNU_SPARSES];
        char is_extended, real_size[12];
};
struct tar_gnu_more {
        struct tar_gnu_sparse sparse[TAR_GNU_SPARSES_MORE];
        char is_extended, unused[7];
};
_Static_assert(sizeof(struct tar_gnu_more) == TAR_BLOCK_BYTES, "no padding");

/* Octal digits between blanks and NULs, or base 256 (top bit set).  -EINVAL, -ERANGE. */
int tar_number(const char *field, size_t n, int64_t *ret);
static inline struct str tar_text(const char *field, size_t n)
{
        return (struct str){field, strnlen(field, n)};
}
bool tar_header_is_zero(const struct tar_header *h);
bool tar_header_sum_is_right(const struct tar_header *h);
void tar_header_set_sum(struct tar_header *h);
