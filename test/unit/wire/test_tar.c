/* What is written is read again, in pieces of any size; and what must not be read. */
#include "base/auto.h"
#include "tap.h"
#include "wire/tar/tar.h"
#include "wire/tar/tar_header.h"

static const char zeros[TAR_END_BYTES];

static struct tar_reader *reader;
static struct buf content = {.max = 1u << 20}; /* of the last file */
static char seen[4096];                        /* what was read, as text */

static void note_entry(const struct tar_entry *e)
{
        size_t n = strlen(seen);

        (void)snprintf(seen + n, sizeof(seen) - n, "%d %s%s %o %u:%u %llu %lld.%09u%s%s;", (int)e->type,
                       e->is_absolute ? "/" : "", e->name, e->mode, e->uid, e->gid, (unsigned long long)e->size,
                       (long long)e->mtime_s, e->mtime_ns, e->link ? " " : "", e->link ? e->link : "");
        for (size_t i = 0; i < e->xattr_count; i++) {
                n = strlen(seen);
                (void)snprintf(seen + n, sizeof(seen) - n, "%.*s=%.*s;", STR_ARG(e->xattrs[i].name),
                               STR_ARG(e->xattrs[i].value));
        }
}

/* Read all of it in pieces of that size: "", or why not. */
static const char *read_all(const struct buf *archive, size_t piece)
{
        struct str all = {(const char *)buf_at(archive), archive->len};
        struct tar_data data;

        reader = tar_reader_free(reader);
        reader = tar_reader_create();
        seen[0] = '\0';
        buf_reset(&content);
        while (all.n) {
                struct str in = {all.p, all.n < piece ? all.n : piece};

                all = (struct str){all.p + in.n, all.n - in.n};
                for (enum tar_step step = TAR_ENTRY; step != TAR_MORE && step != TAR_END;) {
                        step = tar_reader_next(reader, &in, &data);
                        if (step == TAR_BAD)
                                return tar_reader_why(reader);
                        if (step == TAR_ENTRY) {
                                note_entry(tar_reader_entry(reader));
                                buf_reset(&content);
                        }
                        if (step == TAR_DATA)
                                (void)buf_add(&content, data.bytes.p, data.bytes.n);
                }
        }
        return tar_reader_end(reader) ? "" : "cut off";
}

static void add(struct buf *out, const struct tar_entry *e, const char *bytes)
{
        (void)tar_write_entry(out, e);
        (void)buf_add(out, bytes, e->size);
        (void)buf_add(out, zeros, tar_padding(e->size));
}

static void what_is_written_is_read_again(void)
{
        AUTO_BUF struct buf out = BUF_INIT(1u << 20);
        char long_name[400];
        const struct tar_xattr attrs[] = {{STR("user.a"), STR("b=c\n")}, {STR("user.empty"), STR("")}};

        memset(long_name, 'n', sizeof(long_name));
        for (size_t i = 90; i < sizeof(long_name); i += 90)
                long_name[i] = '/';
        long_name[sizeof(long_name) - 1] = '\0';
        add(&out, &(struct tar_entry){.type = TAR_DIRECTORY, .name = "", .mode = 0755}, "");
        add(&out,
            &(struct tar_entry){.type = TAR_FILE,
                                .name = "a",
                                .mode = 04755,
                                .uid = 5,
                                .gid = 3000000,
                                .size = 5,
                                .mtime_s = 1700000000,
                                .xattrs = attrs,
                                .xattr_count = 2},
            "hello");
        add(&out,
            &(struct tar_entry){
                    .type = TAR_SYMLINK, .name = "l", .link = long_name, .mtime_s = -4, .mtime_ns = 500000000},
            "");
        add(&out, &(struct tar_entry){.type = TAR_HARD_LINK, .name = "h", .link = "a", .mtime_s = 7, .mtime_ns = 9},
            "");
        CHECK_INT(buf_add(&out, zeros, sizeof(zeros)), ==, 0);
        for (size_t piece = 1; piece < 3000; piece = piece * 3 + 1) {
                char want[2000];

                CHECK_STR(read_all(&out, piece), "");
                (void)snprintf(
                        want, sizeof(want),
                        "5  755 0:0 0 0.000000000;0 a 4755 5:3000000 5 1700000000.000000000;user.a=b=c\n;user.empty=;"
                        "2 l 0 0:0 0 -4.500000000 %s;1 h 0 0:0 0 7.000000009 a;",
                        long_name);
                CHECK_STR(seen, want);
        }
}

static void long_names_are_read_again(void)
{
        AUTO_BUF struct buf out = BUF_INIT(1u << 20);
        char name[4100];

        for (size_t n = 95; n < 4096; n += 333) {
                for (size_t i = 0; i < n; i++)
                        name[i] = i % 200 == 199 ? '/' : 'x';
                name[n - 1] = 'x';
                name[n] = '\0';
                buf_reset(&out);
                add(&out, &(struct tar_entry){.type = TAR_FILE, .name = name, .size = 1}, "z");
                CHECK_STR(read_all(&out, 512), "");
                CHECK_STR(tar_reader_entry(reader)->name, name);
                CHECK_INT(content.len, ==, 1);
        }
}

static void names_are_cleaned_or_refused(void)
{
        static const char *const good[][2] = {{"a", "a"},  {"./a", "a"},       {"a//b/", "a/b"}, {".", ""},
                                              {"/a", "a"}, {"a/./b", "a/b"},   {"...", "..."},   {"a/..b", "a/..b"},
                                              {"///", ""}, {"./././/x/.", "x"}};
        static const char *const bad[] = {"..", "../a", "a/..", "a/../b", "/..", "./.."};
        bool is_absolute;
        char text[5000];

        for (size_t i = 0; i < ARRAY_LEN(good); i++) {
                (void)snprintf(text, sizeof(text), "%s", good[i][0]);
                CHECK_INT(tar_name_clean(text, strlen(text), &is_absolute), ==, (int)strlen(good[i][1]));
                CHECK_STR(text, good[i][1]);
                CHECK_INT(is_absolute, ==, good[i][0][0] == '/');
        }
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                (void)snprintf(text, sizeof(text), "%s", bad[i]);
                CHECK_INT(tar_name_clean(text, strlen(text), &is_absolute), <, 0);
        }
        memset(text, 'a', sizeof(text));
        CHECK_INT(tar_name_clean(text, 255, &is_absolute), ==, 255);
        CHECK_INT(tar_name_clean(text, 256, &is_absolute), <, 0);
        memcpy(text, "a\0b", 3);
        CHECK_INT(tar_name_clean(text, 3, &is_absolute), <, 0);
}

/* A header by hand: type, name, size field as they are. */
static void raw(struct buf *out, char type, const char *name, const char *size, const char *magic)
{
        struct tar_header h = {.type = type};

        memcpy(h.name, name, strlen(name));
        memcpy(h.mode, "0000644", 8);
        memcpy(h.size, size, strlen(size) < 12 ? strlen(size) + 1 : 12);
        memcpy(h.magic, magic, strlen(magic));
        tar_header_set_sum(&h);
        (void)buf_add(out, &h, sizeof(h));
}

static void add_extra(struct buf *out, char type, struct str text)
{
        char size[16];

        (void)snprintf(size, sizeof(size), "%011o", (unsigned)text.n);
        raw(out, type, "././@LongLink", size, "ustar");
        (void)buf_add(out, text.p, text.n);
        (void)buf_add(out, zeros, tar_padding(text.n));
}

static void reads_gnu_long_names(void)
{
        AUTO_BUF struct buf out = BUF_INIT(1u << 20);

        add_extra(&out, 'L', STR("very/long/name\0"));
        add_extra(&out, 'K', STR("its/target\0"));
        raw(&out, '2', "short", "00000000000", "ustar  ");
        raw(&out, '0', "next", "00000000000", "ustar  ");
        CHECK_STR(read_all(&out, 100), "");
        CHECK_STR(seen, "2 very/long/name 644 0:0 0 0.000000000 its/target;0 next 644 0:0 0 0.000000000;");
}

static void reads_global_headers(void)
{
        AUTO_BUF struct buf out = BUF_INIT(1u << 20);

        add_extra(&out, 'g', STR("11 comment=\n9 uid=77\n")); /* a comment, and an owner for all */
        CHECK(strstr(read_all(&out, 999), "pax header"));     /* the first length is wrong */
        buf_reset(&out);
        add_extra(&out, 'g', STR("12 comment=\n10 uid=77\n"));
        raw(&out, '0', "a", "00000000000", "ustar");
        add_extra(&out, 'x', STR("8 uid=5\n"));
        raw(&out, '0', "b", "00000000000", "ustar");
        raw(&out, '0', "c", "00000000000", "ustar");
        CHECK_STR(read_all(&out, 999), "");
        CHECK_STR(seen, "0 a 644 77:0 0 0.000000000;0 b 644 5:0 0 0.000000000;0 c 644 77:0 0 0.000000000;");
        buf_reset(&out);
        add_extra(&out, 'g', STR("10 path=x\n"));
        CHECK(strstr(read_all(&out, 999), "a global header has a name"));
}

static void reads_numbers_of_any_kind(void)
{
        int64_t v;

        CHECK(tar_number("0000644\0", 8, &v) == 0 && v == 0644);
        CHECK(tar_number("  644 \0\0", 8, &v) == 0 && v == 0644);
        CHECK(tar_number("\0\0\0\0\0\0\0\0", 8, &v) == 0 && v == 0);
        CHECK(tar_number("\x80\0\0\0\0\0\0\0\0\0\x01\0", 12, &v) == 0 && v == 256);
        CHECK(tar_number("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12, &v) == 0 && v == -1);
        CHECK(tar_number("\x80\0\0\0\x80\0\0\0\0\0\0\0", 12, &v) < 0); /* does not fit */
        CHECK(tar_number("\x80\0\0\x01\0\0\0\0\0\0\0\0", 12, &v) < 0);
        CHECK(tar_number("64x\0\0\0\0\0", 8, &v) < 0);
        CHECK(tar_number("777777777777", 12, &v) == 0 && v == 0777777777777);
}

static void large_files_need_no_data_to_be_announced(void)
{
        AUTO_BUF struct buf out = BUF_INIT(1u << 20);

        CHECK_INT(tar_write_entry(&out, &(struct tar_entry){.type = TAR_FILE, .name = "big", .size = 1ull << 40}), ==,
                  0);
        CHECK_STR(read_all(&out, 4096), "cut off");
        CHECK_STR(seen, "0 big 0 0:0 1099511627776 0.000000000;");
}

static void refuses_what_is_damaged(void)
{
        AUTO_BUF struct buf out = BUF_INIT(1u << 20);

        add(&out, &(struct tar_entry){.type = TAR_FILE, .name = "a", .size = 3}, "abc");
        out.mem[5] ^= 1;
        CHECK(strstr(read_all(&out, 100), "wrong checksum"));
        buf_reset(&out);
        raw(&out, '0', "x", "-0000000001", "ustar");
        CHECK(strstr(read_all(&out, 100), "a size is not valid"));
        buf_reset(&out);
        raw(&out, '0', "../x", "00000000000", "ustar");
        CHECK(strstr(read_all(&out, 100), "a name is not allowed"));
        buf_reset(&out);
        raw(&out, 'q', "x", "00000000000", "ustar");
        CHECK(strstr(read_all(&out, 100), "of a kind that is not known"));
        buf_reset(&out);
        raw(&out, 'x', "x", "77777777777", "ustar");
        CHECK(strstr(read_all(&out, 100), "a header is too large"));
        buf_reset(&out);
        raw(&out, '2', "x", "00000000000", "ustar");
        CHECK(strstr(read_all(&out, 100), "the target of a link is not valid"));
        buf_reset(&out);
        add_extra(&out, 'x', STR("13 path=a\0b\n\n"));
        raw(&out, '0', "x", "00000000000", "ustar");
        CHECK(strstr(read_all(&out, 100), "a name is not allowed"));
}

static void refuses_bad_pax_records(void)
{
        static const char *const bad[] = {
                "0 a=b\n",  "6 a=b",     "5 a=b\n",      "7 a=b\n",   "x a=b\n",      "99999999999 a=b\n",
                "6 =b\n\n", "8 size=\n", "10 size=-1\n", "9 uid=x\n", "11 mtime=z\n", "14 mtime=1.2.3\n"};

        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                AUTO_BUF struct buf out = BUF_INIT(1u << 20);

                add_extra(&out, 'x', str_of(bad[i]));
                raw(&out, '0', "x", "00000000000", "ustar");
                CHECK(read_all(&out, 100)[0]);
        }
}

static void refuses_bad_sparse_maps(void)
{
        static const char *const maps[] = {"1\n0\n9\n", "2\n5\n2\n3\n2\n", "1\n99\n5\n", "999999999\n",
                                           "x\n",       "1\n\n",           "1\n0\n6\n"};

        for (size_t i = 0; i < ARRAY_LEN(maps); i++) {
                AUTO_BUF struct buf out = BUF_INIT(1u << 20);
                char block[512] = {0}, size[16];

                add_extra(&out, 'x', STR("22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n25 GNU.sparse.realsize=8\n"));
                (void)snprintf(size, sizeof(size), "%011o", 512 + 5);
                raw(&out, '0', "s", size, "ustar");
                memcpy(block, maps[i], strlen(maps[i]));
                (void)buf_add(&out, block, sizeof(block));
                CHECK(strstr(read_all(&out, 100), "parse file")); /* a or the, with a capital or not */
        }
}

static void an_archive_may_end_without_a_mark(void)
{
        AUTO_BUF struct buf out = BUF_INIT(1u << 20);

        add(&out, &(struct tar_entry){.type = TAR_FILE, .name = "a", .size = 3}, "abc");
        CHECK_STR(read_all(&out, 100), "");
        out.len -= 509; /* in the middle of the padding */
        CHECK_STR(read_all(&out, 100), "cut off");
        buf_reset(&out);
        add_extra(&out, 'L', STR("name of nothing\0"));
        CHECK_STR(read_all(&out, 100), "cut off");
}

int main(void)
{
        RUN(what_is_written_is_read_again);
        RUN(long_names_are_read_again);
        RUN(names_are_cleaned_or_refused);
        RUN(reads_gnu_long_names);
        RUN(reads_global_headers);
        RUN(reads_numbers_of_any_kind);
        RUN(large_files_need_no_data_to_be_announced);
        RUN(refuses_what_is_damaged);
        RUN(refuses_bad_pax_records);
        RUN(refuses_bad_sparse_maps);
        RUN(an_archive_may_end_without_a_mark);
        reader = tar_reader_free(reader);
        buf_done(&content);
        return tap_done();
}
