/* image_archive.h - the files of a tar archive, put into the directory of blobs as they come; the only code that knows libarchive.
 *
 * Nothing of the archive becomes a path: its names are keys of a map. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"
#include "image/image_manifest.h"

struct blobs;
struct err;

#define IMAGE_ARCHIVE_ENTRIES_MAX 16384
#define IMAGE_ARCHIVE_BYTES_MAX IMAGE_BYTES_MAX

struct archive_blob { /* what one or several names stand for */
        struct image_blob blob;
        bool was_there; /* before this archive */
        bool is_used;   /* it is a layer of an image: it stays */
};

struct image_archive {
        struct blobs *blobs; /* borrowed */
        struct map names;    /* name, without "./" and "..", to struct archive_name, owned */
        struct map sums;     /* digest to struct archive_blob, owned */
};

/* Read all of it: plain, gzip, zstd, xz or bzip2.  *done grows.  ERR_INVALID: damaged, or past a limit. */
int image_archive_read(struct image_archive *a, struct blobs *blobs, int fd, const atomic_bool *is_cancelled,
                       _Atomic uint64_t *done, struct err *err);
/* The file of that name, through links; NULL: there is none. */
struct archive_blob *image_archive_find(const struct image_archive *a, const char *name);
void image_archive_done(struct image_archive *a); /* removes the blobs that are not used and were not there before */
