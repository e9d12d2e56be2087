#include "cli/code/sixel.h"
#include "cli/code/terminal_pictures.h"

#include <errno.h>
#include <zlib.h>

#include "tap.h"

/* ---- making PNG files ---- */

static void add_be32(struct buf *b, uint32_t n)
{
        const uint8_t bytes[] = {(uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n};

        (void)buf_add(b, bytes, 4);
}

static void add_chunk(struct buf *b, const char *type, const void *p, size_t n)
{
        size_t from;

        add_be32(b, (uint32_t)n);
        from = b->len;
        (void)buf_add(b, type, 4);
        (void)buf_add(b, p, n);
        add_be32(b, (uint32_t)crc32(0, buf_at(b) + from, (uInt)(b->len - from)));
}

struct shape {
        uint32_t width, height;
        uint8_t depth, colour, interlace;
};

static void make_png(struct buf *b, const struct shape *s, const char *before, size_t before_n, const void *rows,
                     size_t n)
{
        uint8_t packed[1024], *head;
        uLongf packed_n = sizeof(packed);
        AUTO_BUF struct buf header = BUF_INIT(64);

        (void)compress(packed, &packed_n, rows, n);
        (void)buf_add(b, "\x89PNG\r\n\x1a\n", 8);
        add_be32(&header, s->width);
        add_be32(&header, s->height);
        (void)buf_reserve(&header, 5, &head);
        memcpy(head, (const uint8_t[]){s->depth, s->colour, 0, 0, s->interlace}, 5);
        buf_commit(&header, 5);
        add_chunk(b, "IHDR", buf_at(&header), header.len);
        if (before_n)
                add_chunk(b, before, before + 4, before_n);
        add_chunk(b, "IDAT", packed, 3); /* in two pieces */
        add_chunk(b, "IDAT", packed + 3, packed_n - 3);
        add_chunk(b, "IEND", "", 0);
}

static struct str text_of(const struct buf *b)
{
        return (struct str){(const char *)buf_at(b), b->len};
}

/* ---- decoding ---- */

static void all_kinds_of_pixels_are_decoded(void)
{
        static const struct {
                struct shape shape;
                const char *before;
                size_t before_n;
                uint8_t rows[24];
                size_t n;
                uint8_t rgb[6]; /* of the first two pixels */
        } cases[] = {
                {{2, 1, 1, 0, 0}, NULL, 0, {0, 0x40}, 2, {0, 0, 0, 255, 255, 255}},
                {{2, 1, 2, 0, 0}, NULL, 0, {0, 0x60}, 2, {85, 85, 85, 170, 170, 170}},
                {{2, 1, 4, 0, 0}, NULL, 0, {0, 0xf1}, 2, {255, 255, 255, 17, 17, 17}},
                {{2, 1, 8, 0, 0}, NULL, 0, {1, 10, 10}, 3, {10, 10, 10, 20, 20, 20}},
                {{2, 1, 16, 0, 0}, NULL, 0, {0, 1, 99, 2, 99}, 5, {1, 1, 1, 2, 2, 2}},
                {{2, 1, 8, 2, 0}, NULL, 0, {0, 1, 2, 3, 4, 5, 6}, 7, {1, 2, 3, 4, 5, 6}},
                {{2, 1, 8, 2, 0}, "tRNS\0\1\0\2\0\3", 6, {0, 1, 2, 3, 4, 5, 6}, 7, {255, 255, 255, 4, 5, 6}},
                {{2, 1, 8, 6, 0}, NULL, 0, {0, 1, 2, 3, 255, 0, 0, 0, 0}, 9, {1, 2, 3, 255, 255, 255}},
                {{2, 1, 8, 4, 0}, NULL, 0, {0, 100, 255, 0, 51}, 5, {100, 100, 100, 204, 204, 204}},
                {{2, 1, 4, 3, 0}, "PLTE\1\2\3\4\5\6", 6, {0, 0x10}, 2, {4, 5, 6, 1, 2, 3}},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                AUTO_BUF struct buf file = BUF_INIT(4096);
                struct picture p = {0};
                int r;

                make_png(&file, &cases[i].shape, cases[i].before, cases[i].before_n, cases[i].rows, cases[i].n);
                r = png_decode(text_of(&file), &p);
                CHECK_INT(r, ==, 0);
                r = memcmp(p.rgb, cases[i].rgb, 6);
                picture_done(&p);
                CHECK_INT(r, ==, 0);
        }
}

static void filters_are_undone(void)
{
        /* Four rows of the same grey: plain, up, mean, Paeth. */
        static const uint8_t rows[] = {0, 8, 8, 2, 0, 0, 3, 4, 0, 4, 0, 0};
        AUTO_BUF struct buf file = BUF_INIT(4096);
        struct picture p = {0};
        bool is_same = true;

        make_png(&file, &(struct shape){2, 4, 8, 0, 0}, NULL, 0, rows, sizeof(rows));
        CHECK_INT(png_decode(text_of(&file), &p), ==, 0);
        for (size_t i = 0; i < 2 * 4 * 3; i++)
                is_same &= p.rgb[i] == 8;
        picture_done(&p);
        CHECK(is_same);
}

static void broken_pictures_are_refused(void)
{
        static const uint8_t rows[] = {0, 1, 2, 9, 1, 2};
        static const struct {
                struct shape shape;
                size_t n;
                int r;
        } cases[] = {
                {{2, 2, 8, 0, 0}, 6, -EINVAL}, /* there is no filter 9 */
                {{2, 2, 8, 0, 0}, 3, -EINVAL},      {{2, 1, 8, 0, 1}, 3, -ENOTSUP},
                {{0, 1, 8, 0, 0}, 3, -EINVAL},      {{2, 1, 3, 0, 0}, 3, -EINVAL},
                {{2, 1, 8, 5, 0}, 3, -EINVAL},      {{2, 1, 8, 3, 0}, 3, -EINVAL},
                {{1 << 20, 1, 8, 0, 0}, 3, -E2BIG}, {{16384, 16384, 16, 6, 0}, 3, -E2BIG},
        };
        struct picture p = {0};

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                AUTO_BUF struct buf file = BUF_INIT(4096);

                make_png(&file, &cases[i].shape, NULL, 0, rows, cases[i].n);
                CHECK_INT(png_decode(text_of(&file), &p), ==, cases[i].r);
        }
        CHECK_INT(png_decode(STR(""), &p), ==, -EINVAL);
        CHECK(!p.rgb);
}

static void every_cut_and_every_wrong_byte_is_survived(void)
{
        static const uint8_t rows[] = {0, 1, 2, 0, 1, 2};
        AUTO_BUF struct buf file = BUF_INIT(4096);

        make_png(&file, &(struct shape){2, 2, 8, 0, 0}, NULL, 0, rows, sizeof(rows));
        for (size_t i = 0; i < file.len; i++) {
                struct picture p = {0};

                if (i < file.len - 12) /* all but the last chunk is needed */
                        CHECK_INT(png_decode((struct str){(const char *)buf_at(&file), i}, &p), <, 0);
                buf_at(&file)[i] ^= 0x55;
                (void)png_decode(text_of(&file), &p);
                picture_done(&p);
                buf_at(&file)[i] ^= 0x55;
        }
}

/* ---- sixels ---- */

static void a_picture_becomes_sixels(void)
{
        uint8_t rgb[3 * 4 * 7];
        AUTO_BUF struct buf out = BUF_INIT(1 << 16), small = BUF_INIT(1 << 16);
        struct picture p = {4, 7, rgb};

        memset(rgb, 255, sizeof(rgb));
        memset(rgb, 0, 3); /* one black pixel */
        CHECK_INT(sixel_write(&p, 100, 100, &out), ==, 0);
        CHECK(strstr(buf_cstr(&out), "\"1;1;4;7#0;2;0;0;0#1;2;0;0;20"));
        CHECK(strstr(buf_cstr(&out), "#0@$#215}~~~$-#215!4@$-\x1b\\"));
        CHECK_INT(sixel_write(&p, 2, 100, &small), ==, 0);
        CHECK(strstr(buf_cstr(&small), "\"1;1;2;3#0"));
        small.max = 10;
        buf_reset(&small);
        CHECK_INT(sixel_write(&p, 2, 100, &small), ==, -E2BIG);
}

/* ---- terminals ---- */

static void answers_of_terminals(void)
{
        static const struct {
                const char *text;
                enum picture_protocol protocol;
                bool is_complete;
        } cases[] = {
                {"", PICTURES_NONE, false},
                {"\x1b[?62", PICTURES_NONE, false},
                {"\x1b[?62;22c", PICTURES_NONE, true},
                {"\x1b[?62;4c", PICTURES_SIXEL, true},
                {"\x1b[?4c", PICTURES_SIXEL, true},
                {"\x1b[?64;14c", PICTURES_NONE, true},
                {"typed\x1b[?1;4;2c", PICTURES_SIXEL, true},
                {"\x1b_Gi=31;OK\x1b\\", PICTURES_KITTY, false},
                {"\x1b_Gi=31;OK\x1b\\\x1b[?62;4c", PICTURES_KITTY, true},
                {"\x1b_Gi=31;ENOTSUP\x1b\\\x1b[?62;4c", PICTURES_SIXEL, true},
                {"\x1b[?1;2R\x1b[?6c", PICTURES_NONE, true},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                bool is_complete;

                CHECK_INT(terminal_pictures_answer(str_of(cases[i].text), &is_complete), ==, cases[i].protocol);
                CHECK_INT(is_complete, ==, cases[i].is_complete);
        }
}

static void protocols_carry_the_file(void)
{
        char bytes[5000] = "\x89PNG\r\n\x1a\n";
        const struct terminal_picture png = {{bytes, sizeof(bytes)}, true}, jpeg = {{"\xff\xd8", 2}, false};
        AUTO_BUF struct buf out = BUF_INIT(1 << 16);
        const char *more;

        CHECK_INT(terminal_pictures_write(PICTURES_KITTY, &png, &out), ==, 0);
        CHECK(str_starts(text_of(&out), "\x1b_Ga=T,f=100,q=2,m=1;iVBORw0KGgo"));
        more = strstr(buf_cstr(&out), "\x1b\\\x1b_Gm=0;");
        CHECK(more && more - buf_cstr(&out) == 4096 + 21);
        buf_reset(&out);
        CHECK_INT(terminal_pictures_write(PICTURES_ITERM, &jpeg, &out), ==, 0);
        CHECK_STR(buf_cstr(&out), "\x1b]1337;File=inline=1;preserveAspectRatio=1;size=2:/9g=\a\n");
        CHECK_INT(terminal_pictures_write(PICTURES_KITTY, &jpeg, &out), ==, -ENOTSUP);
        CHECK_INT(terminal_pictures_write(PICTURES_SIXEL, &jpeg, &out), ==, -ENOTSUP);
        CHECK_INT(terminal_pictures_write(PICTURES_SIXEL, &png, &out), ==, -EINVAL);
        CHECK_INT(terminal_pictures_write(PICTURES_NONE, &png, &out), ==, -ENOTSUP);
        CHECK_INT(terminal_pictures_write(PICTURES_KITTY, &(struct terminal_picture){STR("no picture"), true}, &out),
                  ==, -EINVAL);
}

int main(void)
{
        RUN(all_kinds_of_pixels_are_decoded);
        RUN(filters_are_undone);
        RUN(broken_pictures_are_refused);
        RUN(every_cut_and_every_wrong_byte_is_survived);
        RUN(a_picture_becomes_sixels);
        RUN(answers_of_terminals);
        RUN(protocols_carry_the_file);
        return tap_done();
}
