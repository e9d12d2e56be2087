#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/tar/tar.h"
#include "wire/tar/tar_header.h"
#include "wire/tar/tar_pax.h"

#define WHY_MAX 400

/*      HEADER ──pax, long name──▶ EXTRA ──▶ HEADER
 *        │ ──old GNU sparse──▶ SPARSE_BLOCKS ─┐
 *        │ ──pax 1.0 sparse──▶ SPARSE_MAP ────┤
 *        └──────────────────────────────────▶ BEGIN ──▶ CONTENT ──▶ PADDING ──▶ HEADER
 *      HEADER ──a block of zeros──▶ END;  any ──▶ BAD */
enum reader_state {
        READ_HEADER,        /* a block of 512 bytes */
        READ_EXTRA,         /* the content of a header that says more about the next one */
        READ_SPARSE_BLOCKS, /* further blocks of an old GNU header */
        READ_SPARSE_MAP,    /* the map in front of a file's content */
        READ_BEGIN,         /* an entry is complete, and not told yet */
        READ_CONTENT,
        READ_PADDING, /* up to the next block; then the end of the entry is told */
        READ_END,
        READ_BAD,
};

#define TO(s) (1u << (s))
static const unsigned reader_may[] = {
        [READ_HEADER] = TO(READ_EXTRA) | TO(READ_SPARSE_BLOCKS) | TO(READ_SPARSE_MAP) | TO(READ_BEGIN) |
                        TO(READ_PADDING) | TO(READ_END) | TO(READ_BAD),
        [READ_EXTRA] = TO(READ_PADDING) | TO(READ_BAD),
        [READ_SPARSE_BLOCKS] = TO(READ_BEGIN) | TO(READ_BAD),
        [READ_SPARSE_MAP] = TO(READ_BEGIN) | TO(READ_BAD),
        [READ_BEGIN] = TO(READ_CONTENT) | TO(READ_BAD),
        [READ_CONTENT] = TO(READ_PADDING) | TO(READ_BAD),
        [READ_PADDING] = TO(READ_HEADER) | TO(READ_BAD),
        [READ_END] = 0,
        [READ_BAD] = 0,
};

struct tar_extent {
        uint64_t offset, length;
};

struct tar_reader {
        enum reader_state state;
        struct tar_header header; /* being collected, or the last one */
        size_t have;              /* of the block being collected */
        struct buf *extra;        /* where the content of READ_EXTRA goes; NULL: it is dropped */
        char extra_type;
        struct tar_pax pax, global;
        struct buf long_name, long_link;

        uint64_t left;    /* bytes of the content that are still to come */
        size_t padding;   /* bytes up to the next block */
        bool is_in_entry; /* TAR_ENTRY was told, TAR_ENTRY_END was not */
        struct tar_entry entry;
        char *name, *link;        /* owned: of the entry */
        struct tar_xattr *xattrs; /* owned */

        struct tar_extent *extents; /* owned; of a sparse file */
        size_t extent_count, extent_at;
        uint64_t extent_done; /* bytes of the extent at hand */
        bool is_sparse;
        uint64_t map_numbers; /* READ_SPARSE_MAP: how many are still to come; UINT64_MAX: the first is their count */
        uint64_t map_number;  /* the number being read */
        unsigned map_digits;

        char why[WHY_MAX];
};

struct tar_reader *tar_reader_create(void)
{
        struct tar_reader *r = calloc(1, sizeof(*r));

        if (!r)
                return NULL;
        buf_init(&r->long_name, TAR_NAME_MAX + 1);
        buf_init(&r->long_link, TAR_NAME_MAX + 1);
        tar_pax_reset(&r->pax);
        tar_pax_reset(&r->global);
        return r;
}

static void entry_reset(struct tar_reader *r)
{
        free(r->name);
        free(r->link);
        free(r->xattrs);
        free(r->extents);
        r->name = r->link = NULL;
        r->xattrs = NULL;
        r->extents = NULL;
        r->extent_count = r->extent_at = 0;
        r->extent_done = 0;
        r->is_sparse = false;
        r->entry = (struct tar_entry){0};
}

struct tar_reader *tar_reader_free(struct tar_reader *r)
{
        if (!r)
                return NULL;
        entry_reset(r);
        tar_pax_done(&r->pax);
        tar_pax_done(&r->global);
        buf_done(&r->long_name);
        buf_done(&r->long_link);
        free(r);
        return NULL;
}

const struct tar_entry *tar_reader_entry(const struct tar_reader *r)
{
        return &r->entry;
}

const char *tar_reader_why(const struct tar_reader *r)
{
        return r->why;
}

static void reader_go(struct tar_reader *r, enum reader_state next) /* the only writer of r->state */
{
        assert(reader_may[r->state] & TO(next));
        r->state = next;
}

static void reader_fail(struct tar_reader *r, const char *why)
{
        struct str name = r->name ? str_of(r->name) : tar_text(r->header.name, sizeof(r->header.name));

        (void)snprintf(r->why, sizeof(r->why), "%s%s%.*s%s", why, name.n ? " ('" : "",
                       (int)(name.n < 200 ? name.n : 200), name.p, name.n ? "')" : "");
        reader_go(r, READ_BAD);
}

/* ---- names ---- */

int tar_name_clean(char *name, size_t n, bool *ret_absolute)
{
        size_t out = 0;

        *ret_absolute = n && name[0] == '/';
        for (size_t i = 0; i < n;) {
                size_t len = 0;

                while (i + len < n && name[i + len] != '/') {
                        if (name[i + len] == '\0')
                                return -EINVAL;
                        len++;
                }
                if (len > TAR_PART_MAX || (len == 2 && name[i] == '.' && name[i + 1] == '.'))
                        return -EINVAL;
                if (len && !(len == 1 && name[i] == '.')) {
                        if (out)
                                name[out++] = '/';
                        memmove(name + out, name + i, len);
                        out += len;
                }
                i += len + 1;
        }
        if (out > TAR_NAME_MAX)
                return -EINVAL;
        if (out < n)
                name[out] = '\0';
        return (int)out;
}

/* The name in ustar's two fields; only POSIX archives have the second. */
static char *header_name(const struct tar_header *h, size_t *ret_n)
{
        struct str name = tar_text(h->name, sizeof(h->name)), prefix = {0};
        char *out = malloc(sizeof(h->name) + sizeof(h->prefix) + 2);
        size_t n = 0;

        if (!out)
                return NULL;
        if (memcmp(h->magic, "ustar", 6) == 0)
                prefix = tar_text(h->prefix, sizeof(h->prefix));
        if (prefix.n) {
                memcpy(out, prefix.p, prefix.n);
                out[prefix.n] = '/';
                n = prefix.n + 1;
        }
        memcpy(out + n, name.p, name.n);
        *ret_n = n + name.n;
        out[*ret_n] = '\0';
        return out;
}

static const char *entry_take_name(struct tar_reader *r, bool *ret_is_dir)
{
        struct str given = r->pax.sparse_name.p ? r->pax.sparse_name : r->pax.path;
        size_t n = given.n;

        if (!given.p && r->long_name.len)
                given = tar_text((const char *)buf_at(&r->long_name), r->long_name.len);
        if (given.p) {
                if (given.n > TAR_NAME_MAX + 1)
                        return "a name is too long";
                r->name = str_dup(given);
                n = given.n;
        } else {
                r->name = header_name(&r->header, &n);
        }
        if (!r->name)
                return "out of memory";
        if (n == 0)
                return "a name is empty";
        *ret_is_dir = r->name[n - 1] == '/';
        if (tar_name_clean(r->name, n, &r->entry.is_absolute) < 0)
                return "a name is not allowed";
        r->entry.name = r->name;
        return NULL;
}

static const char *entry_take_link(struct tar_reader *r)
{
        struct str given = r->pax.link;
        bool is_absolute;

        if (!given.p && r->long_link.len)
                given = tar_text((const char *)buf_at(&r->long_link), r->long_link.len);
        if (!given.p)
                given = tar_text(r->header.link, sizeof(r->header.link));
        if (given.n == 0 || given.n > TAR_NAME_MAX || str_has_nul(given))
                return "the target of a link is not valid";
        r->link = str_dup(given);
        if (!r->link)
                return "out of memory";
        if (r->entry.type == TAR_HARD_LINK && tar_name_clean(r->link, given.n, &is_absolute) <= 0)
                return "the target of a hard link is not allowed";
        r->entry.link = r->link;
        return NULL;
}

/* ---- numbers ---- */

static const char *take_u32(const char *field, size_t n, uint32_t *ret)
{
        int64_t v;

        if (tar_number(field, n, &v) < 0 || v < 0 || v >= UINT32_MAX)
                return "a number of a header is not valid";
        *ret = (uint32_t)v;
        return NULL;
}

static const char *entry_take_owner(struct tar_reader *r)
{
        const struct tar_header *h = &r->header;
        struct tar_entry *e = &r->entry;
        const char *why = NULL;

        if (r->pax.has_uid || r->global.has_uid)
                e->uid = r->pax.has_uid ? r->pax.uid : r->global.uid;
        else
                why = take_u32(h->uid, sizeof(h->uid), &e->uid);
        if (r->pax.has_gid || r->global.has_gid)
                e->gid = r->pax.has_gid ? r->pax.gid : r->global.gid;
        else if (!why)
                why = take_u32(h->gid, sizeof(h->gid), &e->gid);
        return why;
}

static const char *entry_take_numbers(struct tar_reader *r, uint64_t *ret_stored)
{
        const struct tar_header *h = &r->header;
        const struct tar_pax *time = r->pax.has_mtime ? &r->pax : &r->global;
        struct tar_entry *e = &r->entry;
        uint32_t mode;
        int64_t size, mtime = 0;
        const char *why;

        if ((why = take_u32(h->mode, sizeof(h->mode), &mode)) || (why = entry_take_owner(r)) ||
            (why = take_u32(h->major, sizeof(h->major), &e->major)) ||
            (why = take_u32(h->minor, sizeof(h->minor), &e->minor)))
                return why;
        e->mode = mode & 07777;
        if (time->has_mtime) {
                e->mtime_s = time->mtime_s;
                e->mtime_ns = time->mtime_ns;
        } else if (tar_number(h->mtime, sizeof(h->mtime), &mtime) < 0) {
                return "a time is not valid";
        } else {
                e->mtime_s = mtime;
        }
        if (tar_number(h->size, sizeof(h->size), &size) < 0 || size < 0)
                return "a size is not valid";
        *ret_stored = r->pax.has_size ? r->pax.size : (uint64_t)size;
        return NULL;
}

/* ---- sparse files ---- */

static const char *extent_add(struct tar_reader *r, uint64_t offset, uint64_t length)
{
        const struct tar_extent *last = r->extent_count ? &r->extents[r->extent_count - 1] : NULL;

        if (offset > r->entry.size || length > r->entry.size - offset || (last && offset < last->offset + last->length))
                return "the map of a sparse file is not valid";
        if (length == 0)
                return NULL;
        if (r->extent_count == TAR_EXTENTS_MAX)
                return "a sparse file has too many parts";
        if ((r->extent_count & (r->extent_count - 1)) == 0) { /* grows at powers of two */
                size_t cap = r->extent_count ? 2 * r->extent_count : 1;
                struct tar_extent *more = realloc(r->extents, cap * sizeof(*more));

                if (!more)
                        return "out of memory";
                r->extents = more;
        }
        r->extents[r->extent_count++] = (struct tar_extent){offset, length};
        return NULL;
}

static const char *extents_add_gnu(struct tar_reader *r, const struct tar_gnu_sparse *s, size_t n)
{
        const char *why = NULL;

        for (size_t i = 0; !why && i < n && s[i].length[0]; i++) {
                int64_t offset, length;

                if (tar_number(s[i].offset, sizeof(s[i].offset), &offset) < 0 || offset < 0 ||
                    tar_number(s[i].length, sizeof(s[i].length), &length) < 0 || length < 0)
                        return "the map of a sparse file is not valid";
                why = extent_add(r, (uint64_t)offset, (uint64_t)length);
        }
        return why;
}

/* The parts of the map are what is stored, no more and no less. */
static void sparse_begin(struct tar_reader *r)
{
        uint64_t total = 0;

        for (size_t i = 0; i < r->extent_count; i++)
                total += r->extents[i].length; /* they do not overlap, and end below 2^63 */
        if (total != r->left)
                reader_fail(r, "the map of a sparse file does not fit its size");
        else
                reader_go(r, READ_BEGIN);
}

static const char *gnu_tail_read(struct tar_reader *r, bool *ret_more)
{
        struct tar_gnu_tail tail;
        int64_t real;

        memcpy(&tail, r->header.prefix, sizeof(tail));
        if (tar_number(tail.real_size, sizeof(tail.real_size), &real) < 0 || real < 0)
                return "a size is not valid";
        r->entry.size = (uint64_t)real;
        r->is_sparse = true;
        *ret_more = tail.is_extended;
        return extents_add_gnu(r, tail.sparse, TAR_GNU_SPARSES);
}

static void gnu_more_read(struct tar_reader *r)
{
        struct tar_gnu_more more;
        const char *why;

        memcpy(&more, &r->header, sizeof(more));
        why = extents_add_gnu(r, more.sparse, TAR_GNU_SPARSES_MORE);
        if (why)
                reader_fail(r, why);
        else if (!more.is_extended)
                sparse_begin(r);
}

/* One byte of a pax 1.0 map: decimal numbers, each on a line: how many parts, then offset and length of each. */
static const char *map_byte(struct tar_reader *r, char c)
{
        if (c >= '0' && c <= '9' && r->map_digits < 19) {
                r->map_number = r->map_number * 10 + (unsigned)(c - '0');
                r->map_digits++;
                return NULL;
        }
        if (c != '\n' || r->map_digits == 0)
                return "the map of a sparse file is not valid";
        if (r->map_numbers == UINT64_MAX) {
                if (r->map_number > TAR_EXTENTS_MAX)
                        return "a sparse file has too many parts";
                r->map_numbers = 2 * r->map_number;
        } else if (r->map_numbers-- % 2 == 0) {
                r->extent_done = r->map_number; /* the offset, until the length is known */
        } else {
                const char *why = extent_add(r, r->extent_done, r->map_number);

                if (why)
                        return why;
        }
        r->map_number = 0;
        r->map_digits = 0;
        return NULL;
}

/* The block that was collected holds a piece of the map. */
static void map_block(struct tar_reader *r)
{
        const char *p = (const char *)&r->header, *why = NULL;

        if (r->left < TAR_BLOCK_BYTES) {
                reader_fail(r, "the map of a sparse file is longer than the file");
                return;
        }
        r->left -= TAR_BLOCK_BYTES;
        for (size_t i = 0; !why && i < TAR_BLOCK_BYTES && r->map_numbers; i++)
                why = map_byte(r, p[i]);
        if (why) {
                reader_fail(r, why);
        } else if (r->map_numbers == 0) {
                r->extent_done = 0;
                sparse_begin(r);
        }
}

/* ---- headers ---- */

static const char *entry_take_xattrs(struct tar_reader *r)
{
        size_t count = r->pax.xattr_count;

        if (count == 0)
                return NULL;
        r->entry.xattrs = r->xattrs =
                TAKE_PTR(r->pax.xattrs); /* the values stay in r->pax.text until the next header */
        r->entry.xattr_count = count;
        r->pax.xattr_count = 0;
        return NULL;
}

static int type_of(char type, bool is_dir, enum tar_type *ret)
{
        switch (type) {
        case '0':
        case '\0':
        case '7':
        case 'S': *ret = type == '\0' && is_dir ? TAR_DIRECTORY : TAR_FILE; return 0;
        case '1': *ret = TAR_HARD_LINK; return 0;
        case '2': *ret = TAR_SYMLINK; return 0;
        case '3': *ret = TAR_CHAR_DEVICE; return 0;
        case '4': *ret = TAR_BLOCK_DEVICE; return 0;
        case '5': *ret = TAR_DIRECTORY; return 0;
        case '6': *ret = TAR_FIFO; return 0;
        default: return -EINVAL;
        }
}

static const char *entry_read(struct tar_reader *r)
{
        uint64_t stored = 0;
        bool is_dir = false;
        const char *why;

        entry_reset(r);
        why = entry_take_name(r, &is_dir);
        if (!why && type_of(r->header.type, is_dir, &r->entry.type) < 0)
                why = "an entry is of a kind that is not known";
        if (!why)
                why = entry_take_numbers(r, &stored);
        if (!why && (r->entry.type == TAR_HARD_LINK || r->entry.type == TAR_SYMLINK))
                why = entry_take_link(r);
        if (!why)
                why = entry_take_xattrs(r);
        r->left = r->entry.type == TAR_FILE ? stored : 0; /* others have none, whatever the field says */
        r->padding = tar_padding(r->left);
        r->entry.size = r->left;
        return why;
}

/* What follows the header of a file; others begin at once. */
static void entry_begin(struct tar_reader *r)
{
        bool has_more = false;
        const char *why = NULL;

        if (r->entry.type == TAR_FILE && r->header.type == 'S') {
                why = gnu_tail_read(r, &has_more);
                if (!why && !has_more)
                        sparse_begin(r);
                else if (!why)
                        reader_go(r, READ_SPARSE_BLOCKS);
        } else if (r->entry.type == TAR_FILE && r->pax.has_sparse_major) {
                if (r->pax.sparse_major != 1 || r->pax.sparse_minor != 0 || !r->pax.has_real_size) {
                        why = "a sparse file is of a kind that is not known";
                } else {
                        r->entry.size = r->pax.real_size;
                        r->is_sparse = true;
                        r->map_numbers = UINT64_MAX;
                        r->map_number = r->map_digits = 0;
                        reader_go(r, READ_SPARSE_MAP);
                }
        } else {
                reader_go(r, READ_BEGIN);
        }
        if (why)
                reader_fail(r, why);
}

/* Headers that say more about the next one. */
static struct buf *extra_of(struct tar_reader *r, char type)
{
        switch (type) {
        case 'x':
        case 'X': tar_pax_reset(&r->pax); return &r->pax.text;
        case 'g': tar_pax_reset(&r->global); return &r->global.text;
        case 'L': buf_reset(&r->long_name); return &r->long_name;
        case 'K': buf_reset(&r->long_link); return &r->long_link;
        default: return NULL;
        }
}

static void extra_begin(struct tar_reader *r)
{
        int64_t size;

        entry_reset(r); /* a failure is not about the entry before */
        r->extra_type = r->header.type;
        r->extra = extra_of(r, r->header.type);
        if (tar_number(r->header.size, sizeof(r->header.size), &size) < 0 || size < 0 ||
            (uint64_t)size > r->extra->max) {
                reader_fail(r, "a header is too large");
                return;
        }
        r->left = (uint64_t)size;
        r->padding = tar_padding(r->left);
        reader_go(r, READ_EXTRA);
}

static void extra_end(struct tar_reader *r)
{
        const char *why = NULL;

        if (r->extra_type == 'x' || r->extra_type == 'X')
                why = tar_pax_parse(&r->pax, false);
        else if (r->extra_type == 'g')
                why = tar_pax_parse(&r->global, true);
        if (why)
                reader_fail(r, why);
        else
                reader_go(r, READ_PADDING);
}

static void header_read(struct tar_reader *r)
{
        const char *why;

        if (tar_header_is_zero(&r->header)) {
                reader_go(r, READ_END);
                return;
        }
        if (!tar_header_sum_is_right(&r->header)) {
                entry_reset(r);
                reader_fail(r, "a header has a wrong checksum: this is no tar archive, or it is damaged");
                return;
        }
        if (strchr("xXgLK", r->header.type) && r->header.type) {
                extra_begin(r);
                return;
        }
        why = entry_read(r);
        if (why)
                reader_fail(r, why);
        else
                entry_begin(r);
}

/* ---- input ---- */

static bool collect_block(struct tar_reader *r, struct str *in) /* false: more is needed */
{
        size_t n = TAR_BLOCK_BYTES - r->have;

        n = in->n < n ? in->n : n;
        memcpy((char *)&r->header + r->have, in->p, n);
        *in = (struct str){in->p + n, in->n - n};
        r->have += n;
        if (r->have < TAR_BLOCK_BYTES)
                return false;
        r->have = 0;
        return true;
}

static bool collect_extra(struct tar_reader *r, struct str *in)
{
        size_t n = r->left < in->n ? (size_t)r->left : in->n;

        if (buf_add(r->extra, in->p, n) < 0)
                reader_fail(r, "out of memory");
        *in = (struct str){in->p + n, in->n - n};
        r->left -= n;
        return r->left == 0;
}

static bool skip_padding(struct tar_reader *r, struct str *in)
{
        size_t n = r->padding < in->n ? r->padding : in->n;

        *in = (struct str){in->p + n, in->n - n};
        r->padding -= n;
        return r->padding == 0;
}

static void give_data(struct tar_reader *r, struct str *in, struct tar_data *ret)
{
        uint64_t n = r->left < in->n ? r->left : in->n;

        if (r->is_sparse) {
                const struct tar_extent *x = &r->extents[r->extent_at];

                n = n < x->length - r->extent_done ? n : x->length - r->extent_done;
                ret->offset = x->offset + r->extent_done;
                r->extent_done += n;
                if (r->extent_done == x->length) {
                        r->extent_at++;
                        r->extent_done = 0;
                }
        } else {
                ret->offset = r->entry.size - r->left;
        }
        ret->bytes = (struct str){in->p, (size_t)n};
        *in = (struct str){in->p + n, in->n - (size_t)n};
        r->left -= n;
}

/* The end of an entry, or of a header that was about the next one. */
static bool padding_end(struct tar_reader *r)
{
        bool was_entry = r->is_in_entry;

        r->is_in_entry = false;
        reader_go(r, READ_HEADER);
        if (was_entry) {
                tar_pax_reset(&r->pax);
                buf_reset(&r->long_name);
                buf_reset(&r->long_link);
        }
        return was_entry;
}

enum tar_step tar_reader_next(struct tar_reader *r, struct str *in, struct tar_data *ret)
{
        for (;;) {
                switch (r->state) {
                case READ_HEADER:
                        if (!collect_block(r, in))
                                return TAR_MORE;
                        header_read(r);
                        break;
                case READ_EXTRA:
                        if (!collect_extra(r, in))
                                return r->state == READ_BAD ? TAR_BAD : TAR_MORE;
                        if (r->state == READ_EXTRA)
                                extra_end(r);
                        break;
                case READ_SPARSE_BLOCKS:
                        if (!collect_block(r, in))
                                return TAR_MORE;
                        gnu_more_read(r);
                        break;
                case READ_SPARSE_MAP:
                        if (!collect_block(r, in))
                                return TAR_MORE;
                        map_block(r);
                        break;
                case READ_BEGIN:
                        r->is_in_entry = true;
                        reader_go(r, READ_CONTENT);
                        return TAR_ENTRY;
                case READ_CONTENT:
                        if (r->left == 0) {
                                reader_go(r, READ_PADDING);
                                break;
                        }
                        if (in->n == 0)
                                return TAR_MORE;
                        give_data(r, in, ret);
                        return TAR_DATA;
                case READ_PADDING:
                        if (!skip_padding(r, in))
                                return TAR_MORE;
                        if (padding_end(r))
                                return TAR_ENTRY_END;
                        break;
                case READ_END: *in = (struct str){in->p + in->n, 0}; return TAR_END;
                case READ_BAD: return TAR_BAD;
                }
        }
}

bool tar_reader_end(const struct tar_reader *r)
{
        bool has_announced = r->pax.text.len || r->long_name.len || r->long_link.len;

        return r->state == READ_END || (r->state == READ_HEADER && r->have == 0 && !has_announced);
}
