#include "wire/protobuf.h"

#include <errno.h>

#include "tap.h"

#define BYTES(...) ((struct str){(const char *)(const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})})

static void numbers_go_there_and_back(void)
{
        static const uint64_t values[] = {0, 1, 127, 128, 300, UINT32_MAX, (uint64_t)(int64_t)-1};

        for (size_t i = 0; i < ARRAY_LEN(values); i++) {
                AUTO_BUF struct buf b = BUF_INIT(64);
                struct protobuf_field f;
                struct str rest;

                CHECK_INT(protobuf_add_number(&b, 68, values[i]), ==, 0);
                rest = (struct str){(const char *)buf_at(&b), b.len};
                CHECK_INT(protobuf_next(&rest, &f), ==, 1);
                CHECK_INT(f.number, ==, 68);
                CHECK_INT(f.type, ==, PROTOBUF_NUMBER);
                CHECK(f.value == values[i]);
                CHECK_INT(protobuf_next(&rest, &f), ==, 0);
        }
}

static void is_the_format_of_others(void)
{
        AUTO_BUF struct buf b = BUF_INIT(64);
        static const uint8_t want[] = {0x08, 0x96, 0x01, 0x12, 0x02, 'h', 'i', 0x9a, 0x06, 0x00};

        CHECK_INT(protobuf_add_number(&b, 1, 150), ==, 0);
        CHECK_INT(protobuf_add_bytes(&b, 2, STR("hi")), ==, 0);
        CHECK_INT(protobuf_add_bytes(&b, 99, STR("")), ==, 0);
        CHECK_INT(b.len, ==, sizeof(want));
        CHECK(memcmp(buf_at(&b), want, sizeof(want)) == 0);
}

static void reads_fixed_sizes(void)
{
        struct str rest = BYTES(0x0d, 1, 2, 3, 4, 0x11, 1, 2, 3, 4, 5, 6, 7, 8);
        struct protobuf_field f;

        CHECK_INT(protobuf_next(&rest, &f), ==, 1);
        CHECK(f.type == PROTOBUF_FIXED32 && f.value == 0x04030201);
        CHECK_INT(protobuf_next(&rest, &f), ==, 1);
        CHECK(f.type == PROTOBUF_FIXED64 && f.number == 2 && f.value == 0x0807060504030201ull);
        CHECK_INT(protobuf_next(&rest, &f), ==, 0);
}

static void refuses_what_is_no_message(void)
{
        const struct str bad[] = {
                BYTES(0x80),                                                                   /* key cut short */
                BYTES(0x08),                                                                   /* no value */
                BYTES(0x08, 0xff),                                                             /* value cut short */
                BYTES(0x00, 0x01),                                                             /* field 0 */
                BYTES(0x0b, 0x0c),                                                             /* a group */
                BYTES(0x0e, 0x01),                                                             /* type 6 */
                BYTES(0x12, 0x02, 'x'),                                                        /* bytes cut short */
                BYTES(0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 'x'),  /* length 2^64 - 1 */
                BYTES(0x0d, 1, 2, 3),                                                          /* fixed cut short */
                BYTES(0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02),       /* 65 bits */
                BYTES(0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00), /* eleven bytes */
                BYTES(0x80, 0x80, 0x80, 0x80, 0x10, 0x00),                                     /* field 2^29 */
        };

        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                struct protobuf_field f = {.number = 77};
                struct str rest = bad[i];

                if (protobuf_next(&rest, &f) != -EBADMSG)
                        printf("# case %zu\n", i);
                CHECK_INT(protobuf_next(&rest, &f), ==, -EBADMSG);
                CHECK(rest.p == bad[i].p && rest.n == bad[i].n && f.number == 77);
        }
}

static void keeps_to_the_buffers_limit(void)
{
        AUTO_BUF struct buf b = BUF_INIT(4);

        CHECK_INT(protobuf_add_bytes(&b, 1, STR("too long")), ==, -E2BIG);
}

int main(void)
{
        RUN(numbers_go_there_and_back);
        RUN(is_the_format_of_others);
        RUN(reads_fixed_sizes);
        RUN(refuses_what_is_no_message);
        RUN(keeps_to_the_buffers_limit);
        return tap_done();
}
