/* tar.h - tar archives, without I/O: a strict reader, and a writer.
 *
 * Read: ustar, pax (with global headers), GNU long names and links, sparse files (old GNU, pax 1.0), numbers in base 256.
 * Written: ustar, with a pax header where something does not fit.
 *
 * Nothing in an archive is trusted.  Names are given without "." and doubled slashes, never with "..", NUL, or parts that a
 * file system would refuse; sizes, counts and maps of sparse files have limits; header checksums must be right. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

#define TAR_BLOCK_BYTES 512u
#define TAR_NAME_MAX 4095u        /* bytes of a path */
#define TAR_PART_MAX 255u         /* bytes of one part of it */
#define TAR_HEADER_MAX (1u << 20) /* of one pax header */
#define TAR_EXTENTS_MAX (1u << 18)
#define TAR_XATTRS_MAX 256u

enum tar_type { TAR_FILE, TAR_HARD_LINK, TAR_SYMLINK, TAR_CHAR_DEVICE, TAR_BLOCK_DEVICE, TAR_DIRECTORY, TAR_FIFO };

struct tar_xattr {
        struct str name, value; /* the name has no NUL, and is not empty */
};

struct tar_entry {
        enum tar_type type;
        const char *name; /* "" is the directory that the archive is about */
        bool is_absolute; /* it was written with a slash in front; `name` has none */
        const char *link; /* hard link: a name as above.  Symbolic link: its text.  Else NULL */
        uint32_t mode;    /* 07777 */
        uint32_t uid, gid;
        int64_t mtime_s;
        uint32_t mtime_ns;
        uint64_t size; /* of a file, with its holes; else 0 */
        uint32_t major, minor;
        const struct tar_xattr *xattrs;
        size_t xattr_count;
};

/* ---- reading ---- */

enum tar_step {
        TAR_MORE,      /* all of the input is used: give more, or see tar_reader_end() */
        TAR_ENTRY,     /* an entry begins */
        TAR_DATA,      /* bytes of its file */
        TAR_ENTRY_END, /* it is complete */
        TAR_END,       /* the end of the archive: what follows is padding */
        TAR_BAD,       /* tar_reader_why() says what is wrong; the same again from now on */
};

struct tar_data {
        uint64_t offset; /* in the file: what no piece has is a hole */
        struct str bytes;
};

struct tar_reader;                          /* opaque */
struct tar_reader *tar_reader_create(void); /* NULL: out of memory */
struct tar_reader *tar_reader_free(struct tar_reader *r);
/* Uses bytes at the front of *in.  *ret is written for TAR_DATA, and is a slice of the input. */
enum tar_step tar_reader_next(struct tar_reader *r, struct str *in, struct tar_data *ret);
const struct tar_entry *tar_reader_entry(const struct tar_reader *r); /* from TAR_ENTRY to TAR_ENTRY_END */
/* The input has ended: true if the archive may end here (many have no end mark). */
bool tar_reader_end(const struct tar_reader *r);
const char *
tar_reader_why(const struct tar_reader *r); /* after TAR_BAD, with the name of the entry; valid as long as r */

/* ---- writing ---- */

/* The headers of an entry.  After them come e->size bytes of a file, then tar_padding() zeros.  0, -E2BIG, -ENOMEM. */
int tar_write_entry(struct buf *out, const struct tar_entry *e);
static inline size_t tar_padding(uint64_t size)
{
        return (size_t)(-size % TAR_BLOCK_BYTES);
}
#define TAR_END_BYTES (2 * TAR_BLOCK_BYTES) /* zeros, behind the last entry */

/* ---- names ---- */

/* A path without "." and empty parts, or -EINVAL: "..", NUL, or too long.  Written over itself: the result is never
 * longer. */
int tar_name_clean(char *name, size_t n, bool *ret_absolute);
