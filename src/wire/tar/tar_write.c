#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "wire/tar/tar.h"
#include "wire/tar/tar_header.h"

#define OCTAL_7 07777777u        /* the largest number in 7 digits */
#define OCTAL_11 077777777777ull /* and in 11 */

static const char types[] = {
        [TAR_FILE] = '0',         [TAR_HARD_LINK] = '1', [TAR_SYMLINK] = '2', [TAR_CHAR_DEVICE] = '3',
        [TAR_BLOCK_DEVICE] = '4', [TAR_DIRECTORY] = '5', [TAR_FIFO] = '6',
};

/* ---- pax records ---- */

static int add_record(struct buf *out, const char *key, struct str value)
{
        size_t body = strlen(key) + value.n + 3, len = body, digits = 0; /* blank, "=", line end */
        char head[32];

        /* The length counts its own digits. */
        for (size_t d = 1; d < 10; d++) {
                len = body + d;
                digits = (size_t)snprintf(head, sizeof(head), "%zu ", len) - 1;
                if (digits == d)
                        break;
        }
        if (buf_addc(out, head) < 0 || buf_addc(out, key) < 0 || buf_addc(out, "=") < 0 ||
            buf_add(out, value.p, value.n) < 0)
                return -ENOMEM;
        return buf_addc(out, "\n");
}

static int add_number(struct buf *out, const char *key, uint64_t v)
{
        char text[24];

        (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
        return add_record(out, key, str_of(text));
}

static int add_time(struct buf *out, const struct tar_entry *e)
{
        int64_t s = e->mtime_s;
        uint32_t ns = e->mtime_ns;
        char text[48];

        if (s < 0 && ns) { /* rounded down: back to the number that people write */
                s++;
                ns = 1000000000u - ns;
        }
        (void)snprintf(text, sizeof(text), "%s%lld.%09u", e->mtime_s < 0 && s == 0 ? "-" : "", (long long)s, ns);
        return add_record(out, "mtime", str_of(text));
}

static int add_xattrs(struct buf *out, const struct tar_entry *e)
{
        char key[32 + TAR_PART_MAX];
        int r = 0;

        for (size_t i = 0; r == 0 && i < e->xattr_count; i++) {
                (void)snprintf(key, sizeof(key), "SCHILY.xattr.%.*s", STR_ARG(e->xattrs[i].name));
                r = add_record(out, key, e->xattrs[i].value);
        }
        return r;
}

static bool time_fits(const struct tar_entry *e)
{
        return e->mtime_s >= 0 && (uint64_t)e->mtime_s <= OCTAL_11 && e->mtime_ns == 0;
}

/* What does not fit into the header of ustar. */
static int collect_records(struct buf *out, const struct tar_entry *e, struct str name)
{
        int r = 0;

        if (name.n > sizeof(((struct tar_header *)0)->name))
                r = add_record(out, "path", name);
        if (r == 0 && e->link && strlen(e->link) > sizeof(((struct tar_header *)0)->link))
                r = add_record(out, "linkpath", str_of(e->link));
        if (r == 0 && e->size > OCTAL_11)
                r = add_number(out, "size", e->size);
        if (r == 0 && e->uid > OCTAL_7)
                r = add_number(out, "uid", e->uid);
        if (r == 0 && e->gid > OCTAL_7)
                r = add_number(out, "gid", e->gid);
        if (r == 0 && !time_fits(e))
                r = add_time(out, e);
        return r < 0 ? r : add_xattrs(out, e);
}

/* ---- headers ---- */

static void put_octal(char *field, size_t n, uint64_t v)
{
        for (size_t i = n - 1; i > 0; i--, v >>= 3)
                field[i - 1] = (char)('0' + (v & 7));
        field[n - 1] = '\0';
}

static void put_text(char *field, size_t n, struct str text)
{
        memcpy(field, text.p, text.n < n ? text.n : n);
}

static int add_header(struct buf *out, const struct tar_entry *e, char type, struct str name)
{
        struct tar_header h = {.type = type, .magic = "ustar", .version = {'0', '0'}};

        put_text(h.name, sizeof(h.name), name);
        put_text(h.link, sizeof(h.link), str_of(e->link));
        put_octal(h.mode, sizeof(h.mode), e->mode & 07777);
        put_octal(h.uid, sizeof(h.uid), e->uid > OCTAL_7 ? 0 : e->uid);
        put_octal(h.gid, sizeof(h.gid), e->gid > OCTAL_7 ? 0 : e->gid);
        put_octal(h.size, sizeof(h.size), e->size > OCTAL_11 ? 0 : e->size);
        put_octal(h.mtime, sizeof(h.mtime),
                  e->mtime_s >= 0 && (uint64_t)e->mtime_s <= OCTAL_11 ? (uint64_t)e->mtime_s : 0);
        put_octal(h.major, sizeof(h.major), e->major);
        put_octal(h.minor, sizeof(h.minor), e->minor);
        tar_header_set_sum(&h);
        return buf_add(out, &h, sizeof(h));
}

static int add_pax(struct buf *out, const struct buf *records)
{
        static const char zeros[TAR_BLOCK_BYTES];
        const struct tar_entry e = {.mode = 0644, .size = records->len};
        int r = add_header(out, &e, 'x', STR("././@PaxHeader"));

        if (r == 0)
                r = buf_add(out, buf_at(records), records->len);
        return r < 0 ? r : buf_add(out, zeros, tar_padding(records->len));
}

int tar_write_entry(struct buf *out, const struct tar_entry *e)
{
        AUTO_BUF struct buf records = BUF_INIT(TAR_HEADER_MAX), name = BUF_INIT(2 * TAR_NAME_MAX);
        struct str full;
        int r;

        r = buf_addc(&name, e->name[0] ? e->name : ".");
        if (r == 0 && e->type == TAR_DIRECTORY)
                r = buf_addc(&name, "/");
        if (r < 0)
                return r;
        full = (struct str){(const char *)buf_at(&name), name.len};
        r = collect_records(&records, e, full);
        if (r == 0 && records.len)
                r = add_pax(out, &records);
        return r < 0 ? r : add_header(out, e, types[e->type], full);
}
