#include "wire/base64.h"

#include <errno.h>

#include "tap.h"

static const struct {
        const char *plain, *padded, *bare;
} vectors[] = {
        /* RFC 4648 10 */
        {"", "", ""},
        {"f", "Zg==", "Zg"},
        {"fo", "Zm8=", "Zm8"},
        {"foo", "Zm9v", "Zm9v"},
        {"foob", "Zm9vYg==", "Zm9vYg"},
        {"fooba", "Zm9vYmE=", "Zm9vYmE"},
        {"foobar", "Zm9vYmFy", "Zm9vYmFy"},
        {"\xfb\xff\xfe", "+//+", "+//+"},
};

static void encodes_with_and_without_padding(void)
{
        for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
                AUTO_BUF struct buf b = BUF_INIT(100);

                CHECK_INT(base64_add(&b, vectors[i].plain, strlen(vectors[i].plain), true), ==, 0);
                CHECK_STR(buf_cstr(&b), vectors[i].padded);
                buf_reset(&b);
                CHECK_INT(base64_add(&b, vectors[i].plain, strlen(vectors[i].plain), false), ==, 0);
                CHECK_STR(buf_cstr(&b), vectors[i].bare);
        }
}

static void decodes_padded_and_bare(void)
{
        for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
                AUTO_BUF struct buf b = BUF_INIT(100);

                CHECK_INT(base64_decode(str_of(vectors[i].padded), &b), ==, 0);
                CHECK_STR(buf_cstr(&b), vectors[i].plain);
                buf_reset(&b);
                CHECK_INT(base64_decode(str_of(vectors[i].bare), &b), ==, 0);
                CHECK_STR(buf_cstr(&b), vectors[i].plain);
        }
}

static void decodes_both_alphabets(void)
{
        AUTO_BUF struct buf b = BUF_INIT(100);

        CHECK_INT(base64_decode(STR("-__-"), &b), ==, 0);
        CHECK_INT(base64_decode(STR("+//+"), &b), ==, 0);
        CHECK_INT(b.len, ==, 6);
        CHECK(memcmp(buf_at(&b), "\xfb\xff\xfe\xfb\xff\xfe", 6) == 0);
}

static void refuses_what_no_encoder_writes(void)
{
        static const struct str cases[] = {
                {"Z", 1},          {"Zg=", 3},   {"Zg===", 5}, {"Z===", 4},   {"====", 4},
                {"=", 1},          {"==", 2},    {"Zm9v=", 5}, {"Zm9v==", 6}, {"Zg==Zg", 6},
                {"Zm 9", 4},       {"Zm9\n", 4}, {"Zm\0v", 4}, {"Zm9v\n", 5}, {"Zh==", 4}, /* bits beyond the byte */
                {"Zm9", 3},                                                                /* the same, unpadded */
                {"Zm\xc3\xa9", 4},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                AUTO_BUF struct buf b = BUF_INIT(100);

                CHECK_INT(base64_decode(cases[i], &b), ==, -EINVAL);
                CHECK_INT(b.len, ==, 0);
        }
}

static void every_byte_goes_there_and_back(void)
{
        uint8_t all[256];

        for (size_t i = 0; i < sizeof(all); i++)
                all[i] = (uint8_t)i;
        for (size_t n = 0; n <= sizeof(all); n++)
                for (int pad = 0; pad < 2; pad++) {
                        AUTO_BUF struct buf text = BUF_INIT(1000), back = BUF_INIT(1000);

                        CHECK_INT(base64_add(&text, all, n, pad), ==, 0);
                        CHECK_INT(base64_decode((struct str){(char *)text.mem, text.len}, &back), ==, 0);
                        CHECK_INT(back.len, ==, n);
                        CHECK(n == 0 || memcmp(back.mem, all, n) == 0);
                }
}

static void output_stops_at_the_buffers_maximum(void)
{
        AUTO_BUF struct buf b = BUF_INIT(5);

        CHECK_INT(base64_add(&b, "foob", 4, true), ==, -E2BIG);
        CHECK_INT(base64_add(&b, "foo", 3, true), ==, 0);
        CHECK_INT(base64_decode(STR("Zm9v"), &b), ==, -E2BIG);
        CHECK_INT(base64_decode(STR("Zg"), &b), ==, 0);
        CHECK_STR(buf_cstr(&b), "Zm9vf");
}

int main(void)
{
        RUN(encodes_with_and_without_padding);
        RUN(decodes_padded_and_bare);
        RUN(decodes_both_alphabets);
        RUN(refuses_what_no_encoder_writes);
        RUN(every_byte_goes_there_and_back);
        RUN(output_stops_at_the_buffers_maximum);
        return tap_done();
}
