#include "wire/crc32c.h"

#include <stdlib.h>

#include "base/auto.h"
#include "tap.h"

/* RFC 3720, appendix B.4. */
static void known_sums(void)
{
        uint8_t bytes[32];

        CHECK_INT(crc32c(0, "123456789", 9), ==, 0xe3069283u);
        CHECK_INT(crc32c(0, "", 0), ==, 0);
        memset(bytes, 0, sizeof(bytes));
        CHECK_INT(crc32c(0, bytes, sizeof(bytes)), ==, 0x8a9136aau);
        memset(bytes, 0xff, sizeof(bytes));
        CHECK_INT(crc32c(0, bytes, sizeof(bytes)), ==, 0x62a8ab43u);
        for (unsigned i = 0; i < sizeof(bytes); i++)
                bytes[i] = (uint8_t)i;
        CHECK_INT(crc32c(0, bytes, sizeof(bytes)), ==, 0x46dd794eu);
        CHECK_INT(crc32c_portable(0, bytes, sizeof(bytes)), ==, 0x46dd794eu);
        for (unsigned i = 0; i < sizeof(bytes); i++)
                bytes[i] = (uint8_t)(31 - i);
        CHECK_INT(crc32c(0, bytes, sizeof(bytes)), ==, 0x113fdb5cu);
        CHECK_INT(crc32c_portable(0, "123456789", 9), ==, 0xe3069283u);
}

static void both_ways_agree_at_every_length_and_place(void)
{
        size_t size = 40000;
        AUTO_FREE uint8_t *p = malloc(size);
        uint32_t x = 1;

        CHECK(p != NULL);
        for (size_t i = 0; i < size; i++)
                p[i] = (uint8_t)((x = x * 1664525 + 1013904223) >> 24);
        for (size_t n = 0; n < size - 9; n = n < 40 ? n + 1 : n * 5 / 4)
                for (size_t at = 0; at < 9; at++)
                        CHECK_INT(crc32c(7, p + at, n), ==, crc32c_portable(7, p + at, n));
        CHECK_INT(crc32c(0, p, 3 * 4096), ==, crc32c_portable(0, p, 3 * 4096));
        CHECK_INT(crc32c(0, p, 6 * 4096 + 8), ==, crc32c_portable(0, p, 6 * 4096 + 8));
}

static void pieces_add_up(void)
{
        static const char text[] = "The quick brown fox jumps over the lazy dog, and a few more times.";

        for (size_t cut = 0; cut <= sizeof(text); cut++)
                CHECK_INT(crc32c(crc32c(0, text, cut), text + cut, sizeof(text) - cut), ==,
                          crc32c(0, text, sizeof(text)));
}

int main(void)
{
        RUN(known_sums);
        RUN(both_ways_agree_at_every_length_and_place);
        RUN(pieces_add_up);
        return tap_done();
}
