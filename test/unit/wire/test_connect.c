#include "wire/connect.h"

#include <errno.h>

#include "tap.h"

static void codes_have_names_and_statuses(void)
{
        static const struct {
                int code;
                const char *name;
                unsigned http;
        } cases[] = {
                {1, "canceled", 499},
                {2, "unknown", 500},
                {3, "invalid_argument", 400},
                {4, "deadline_exceeded", 504},
                {5, "not_found", 404},
                {6, "already_exists", 409},
                {7, "permission_denied", 403},
                {8, "resource_exhausted", 429},
                {9, "failed_precondition", 400},
                {10, "aborted", 409},
                {11, "out_of_range", 400},
                {12, "unimplemented", 501},
                {13, "internal", 500},
                {14, "unavailable", 503},
                {15, "data_loss", 500},
                {16, "unauthenticated", 401},
                {17, "unknown", 500},
                {-1, "unknown", 500},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                CHECK_STR(connect_code_name((enum connect_code)cases[i].code), cases[i].name);
                CHECK_INT(connect_code_http((enum connect_code)cases[i].code), ==, cases[i].http);
        }
}

static void envelopes_go_there_and_back(void)
{
        AUTO_BUF struct buf b = BUF_INIT(1000);
        struct str payload;
        uint8_t flags;
        size_t used;

        CHECK_INT(connect_envelope_add(&b, 0, "{\"a\":1}", 7), ==, 0);
        CHECK_INT(connect_envelope_add(&b, CONNECT_FLAG_END, "{}", 2), ==, 0);
        CHECK_INT(connect_envelope_add(&b, 0, NULL, 0), ==, 0);
        CHECK(b.len == 24 && memcmp(b.mem, "\0\0\0\0\7{\"a\":1}\2\0\0\0\2{}\0\0\0\0\0", 24) == 0);

        CHECK_INT(connect_envelope_parse(buf_at(&b), b.len, 100, &flags, &payload, &used), ==, 1);
        CHECK(flags == 0 && used == 12 && str_is(payload, "{\"a\":1}"));
        buf_consume(&b, used);
        CHECK_INT(connect_envelope_parse(buf_at(&b), b.len, 100, &flags, &payload, &used), ==, 1);
        CHECK(flags == CONNECT_FLAG_END && used == 7 && str_is(payload, "{}"));
        buf_consume(&b, used);
        CHECK_INT(connect_envelope_parse(buf_at(&b), b.len, 100, &flags, &payload, &used), ==, 1);
        CHECK(flags == 0 && used == 5 && payload.n == 0);
}

static void waits_for_the_whole_envelope(void)
{
        static const char text[] = "\1\0\0\0\3abc";
        struct str payload = {NULL, 77};
        uint8_t flags = 77;
        size_t used = 77;

        for (size_t n = 0; n < sizeof(text) - 1; n++)
                CHECK_INT(connect_envelope_parse(text, n, 100, &flags, &payload, &used), ==, 0);
        CHECK(flags == 77 && used == 77 && payload.n == 77);
        CHECK_INT(connect_envelope_parse(text, sizeof(text) - 1, 100, &flags, &payload, &used), ==, 1);
        CHECK(flags == CONNECT_FLAG_COMPRESSED && used == 8 && str_is(payload, "abc"));
}

static void too_big_is_told_from_the_head(void)
{
        struct str payload;
        uint8_t flags;
        size_t used;

        CHECK_INT(connect_envelope_parse("\0\0\0\0\4", 5, 3, &flags, &payload, &used), ==, -E2BIG);
        CHECK_INT(connect_envelope_parse("\0\0\0\0\4", 5, 4, &flags, &payload, &used), ==, 0);
        CHECK_INT(connect_envelope_parse("\0\xff\xff\xff\xff", 5, 1 << 20, &flags, &payload, &used), ==, -E2BIG);
        CHECK_INT(connect_envelope_parse("\0\x01\x02\x03\x04", 5, 0x1020304, &flags, &payload, &used), ==, 0);
        CHECK_INT(connect_envelope_parse("\0\x01\x02\x03\x04", 5, 0x1020303, &flags, &payload, &used), ==, -E2BIG);
}

static void unknown_flags_are_refused(void)
{
        struct str payload;
        uint8_t flags;
        size_t used;

        for (int f = 4; f < 256; f++) {
                char text[5] = {(char)f};

                CHECK_INT(connect_envelope_parse(text, 1, 100, &flags, &payload, &used), ==, -EINVAL);
                CHECK_INT(connect_envelope_parse(text, 5, 100, &flags, &payload, &used), ==, -EINVAL);
        }
}

static void a_full_buffer_takes_nothing(void)
{
        AUTO_BUF struct buf b = BUF_INIT(7);

        CHECK_INT(connect_envelope_add(&b, 0, "abc", 3), ==, -E2BIG);
        CHECK_INT(b.len, ==, 0);
        CHECK_INT(connect_envelope_add(&b, 0, "ab", 2), ==, 0);
}

int main(void)
{
        RUN(codes_have_names_and_statuses);
        RUN(envelopes_go_there_and_back);
        RUN(waits_for_the_whole_envelope);
        RUN(too_big_is_told_from_the_head);
        RUN(unknown_flags_are_refused);
        RUN(a_full_buffer_takes_nothing);
        return tap_done();
}
