#include "puller/image_archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "image/archive_index.h"
#include "puller/blobs.h"

#define PIECE (256u << 10)
#define LINKS_MAX 8

/* "./a/../b//c" is "b/c".  What leads out of the archive stays inside.  malloc'd; NULL: out of memory. */
static char *plain_name(struct str dir, struct str name)
{
        char *out = malloc(dir.n + name.n + 3);
        struct str parts[2] = {dir, name}, part;
        size_t n = 0;
        bool more;

        if (!out)
                return NULL;
        for (size_t i = 0; i < 2; i++)
                do {
                        more = str_cut(&parts[i], '/', &part);
                        if (part.n == 0 || str_is(part, "."))
                                continue;
                        if (str_is(part, "..")) {
                                while (n > 0 && out[--n] != '/')
                                        continue;
                                continue;
                        }
                        if (n > 0)
                                out[n++] = '/';
                        memcpy(out + n, part.p, part.n);
                        n += part.n;
                } while (more);
        out[n] = 0;
        return out;
}

static struct str folder_of(struct str name)
{
        while (name.n > 0 && name.p[name.n - 1] != '/')
                name.n--;
        return name;
}

struct archive_name {              /* one of the two */
        struct archive_blob *blob; /* borrowed from `sums` */
        char *link;                /* owned: another name */
};

static void free_name(struct archive_name *n)
{
        if (n)
                free(n->link);
        free(n);
}

/* Takes link.  The last file of a name counts, as for tar. */
static int keep(struct image_archive *a, struct str name, struct archive_blob *blob, char *link, struct err *err)
{
        AUTO_FREE char *key = plain_name((struct str){"", 0}, name);
        struct archive_name *n = calloc(1, sizeof(*n));
        void *old = NULL;

        if (!key || !n || (!blob && !link)) {
                free(n);
                free(link);
                return err_sys(err, -ENOMEM, "archive");
        }
        *n = (struct archive_name){blob, link};
        if (map_put(&a->names, str_of(key), n, &old) < 0) {
                free_name(n);
                return err_sys(err, -ENOMEM, "archive");
        }
        free_name(old);
        return 0;
}

/* What libarchive reads from, and how it went. */
struct reading {
        struct image_archive *to;
        struct archive *from; /* libarchive's, as the next one */
        struct archive_entry *entry;
        const atomic_bool *is_cancelled;
        _Atomic uint64_t *done;
        uint64_t bytes;
        uint8_t *piece;
};

static int damaged(const struct reading *rd, struct err *err)
{
        int number = archive_errno(rd->from);

        if (number == ENOMEM)
                return err_sys(err, -ENOMEM, "archive");
        return err_set(err, ERR_INVALID, "the archive is damaged, or is no tar archive");
}

static int copy_data(struct reading *rd, struct blob_file *out, struct err *err)
{
        for (;;) {
                la_ssize_t n = archive_read_data(rd->from, rd->piece, PIECE);

                if (n == 0)
                        return 0;
                if (n < 0)
                        return damaged(rd, err);
                if (atomic_load(rd->is_cancelled))
                        return err_set(err, ERR_INTERRUPTED, "cancelled");
                rd->bytes += (uint64_t)n;
                if (rd->bytes > IMAGE_ARCHIVE_BYTES_MAX)
                        return err_set(err, ERR_INVALID, "the archive has more bytes than allowed (%llu)",
                                       (unsigned long long)IMAGE_ARCHIVE_BYTES_MAX);
                *rd->done += (uint64_t)n;
                if (blob_file_write(out, rd->piece, (size_t)n, err) < 0)
                        return -1;
        }
}

/* The blob of this digest, which is in place. */
static int note_blob(struct image_archive *a, const struct image_blob *blob, bool was_there, struct archive_blob **ret,
                     struct err *err)
{
        struct archive_blob *known = map_get(&a->sums, str_of(blob->digest));

        if (!known) {
                known = calloc(1, sizeof(*known));
                if (!known || map_put(&a->sums, str_of(blob->digest), known, NULL) < 0) {
                        free(known);
                        return err_sys(err, -ENOMEM, "archive");
                }
                *known = (struct archive_blob){.blob = *blob, .was_there = was_there};
        }
        *ret = known;
        return 0;
}

static int take_file(struct reading *rd, struct str name, struct err *err)
{
        struct blob_file out = {.fd = -1};
        struct archive_blob *known = NULL;
        struct image_blob blob = {0};
        bool was_there = false;
        int r;

        r = blob_file_begin(&out, rd->to->blobs, err);
        if (r == 0)
                r = copy_data(rd, &out, err);
        blob.bytes = out.bytes;
        if (r == 0)
                r = blob_file_finish(&out, NULL, blob.digest, &was_there, err);
        blob_file_close(&out, false);
        if (r == 0)
                r = note_blob(rd->to, &blob, was_there, &known, err);
        return r < 0 ? r : keep(rd->to, name, known, NULL, err);
}

/* A hard link is relative to the archive, a symbolic link to its folder. */
static int take_entry(struct reading *rd, struct err *err)
{
        const char *path = archive_entry_pathname(rd->entry);
        const char *hard = archive_entry_hardlink(rd->entry), *soft = archive_entry_symlink(rd->entry);
        struct str name = str_of(path);

        if (!path || name.n == 0 || name.n > ARCHIVE_NAME_MAX)
                return err_set(err, ERR_INVALID, "the archive has a file without a name, or with a very long one");
        if (hard)
                return keep(rd->to, name, NULL, plain_name((struct str){"", 0}, str_of(hard)), err);
        if (archive_entry_filetype(rd->entry) == AE_IFLNK && soft)
                return keep(rd->to, name, NULL, plain_name(folder_of(name), str_of(soft)), err);
        if (archive_entry_filetype(rd->entry) == AE_IFREG)
                return take_file(rd, name, err);
        return 0; /* folders, and what no image consists of */
}

static int read_entries(struct reading *rd, struct err *err)
{
        int r, count = 0;

        while ((r = archive_read_next_header(rd->from, &rd->entry)) == ARCHIVE_OK || r == ARCHIVE_WARN) {
                if (atomic_load(rd->is_cancelled))
                        return err_set(err, ERR_INTERRUPTED, "cancelled");
                if (++count > IMAGE_ARCHIVE_ENTRIES_MAX)
                        return err_set(err, ERR_INVALID, "the archive has more than %d files",
                                       IMAGE_ARCHIVE_ENTRIES_MAX);
                if (take_entry(rd, err) < 0)
                        return -1;
        }
        return r == ARCHIVE_EOF ? 0 : damaged(rd, err);
}

/* Only filters that are built in: no program is run. */
static int open_archive(struct reading *rd, int fd, struct err *err)
{
        if (!rd->from || !rd->piece)
                return err_sys(err, -ENOMEM, "archive");
        (void)archive_read_support_format_tar(rd->from);
        (void)archive_read_support_filter_gzip(rd->from);
        (void)archive_read_support_filter_zstd(rd->from);
        (void)archive_read_support_filter_xz(rd->from);
        (void)archive_read_support_filter_bzip2(rd->from);
        return archive_read_open_fd(rd->from, fd, PIECE) == ARCHIVE_OK ? 0 : damaged(rd, err);
}

int image_archive_read(struct image_archive *a, struct blobs *blobs, int fd, const atomic_bool *is_cancelled,
                       _Atomic uint64_t *done, struct err *err)
{
        struct reading rd = {.to = a, .is_cancelled = is_cancelled, .done = done};
        int r;

        *a = (struct image_archive){.blobs = blobs};
        rd.piece = malloc(PIECE);
        rd.from = archive_read_new();
        r = open_archive(&rd, fd, err);
        if (r == 0)
                r = read_entries(&rd, err);
        if (rd.from)
                (void)archive_read_free(rd.from);
        free(rd.piece);
        return r;
}

struct archive_blob *image_archive_find(const struct image_archive *a, const char *name)
{
        AUTO_FREE char *key = plain_name((struct str){"", 0}, str_of(name));
        const struct archive_name *n = key ? map_get(&a->names, str_of(key)) : NULL;

        for (int i = 0; n && n->link; i++)
                n = i < LINKS_MAX ? map_get(&a->names, str_of(n->link)) : NULL;
        return n ? n->blob : NULL;
}

void image_archive_done(struct image_archive *a)
{
        MAP_EACH (slot, &a->sums) {
                const struct archive_blob *b = slot->value;

                if (!b->is_used && !b->was_there)
                        blobs_remove(a->blobs, b->blob.digest);
                free(slot->value);
        }
        MAP_EACH (slot, &a->names)
                free_name(slot->value);
        map_done(&a->sums);
        map_done(&a->names);
}
