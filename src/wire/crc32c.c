#include "wire/crc32c.h"

#include <pthread.h>
#include <string.h>

#define POLYNOMIAL 0x82f63b78u /* reflected */
#define SLICES 8u

static uint32_t table[SLICES][256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void make_table(void)
{
        for (uint32_t i = 0; i < 256; i++) {
                uint32_t crc = i;

                for (int bit = 0; bit < 8; bit++)
                        crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
                table[0][i] = crc;
        }
        for (unsigned k = 1; k < SLICES; k++)
                for (unsigned i = 0; i < 256; i++)
                        table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 0xff];
}

static uint32_t le32(const uint8_t *b)
{
        return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* Eight bytes at a time: each table holds what a byte means so many places further on. */
uint32_t crc32c_portable(uint32_t crc, const void *p, size_t n)
{
        const uint8_t *b = p;

        (void)pthread_once(&table_once, make_table);
        crc = ~crc;
        for (; n >= SLICES; n -= SLICES, b += SLICES) {
                uint32_t low = le32(b) ^ crc, high = le32(b + 4);

                crc = table[7][low & 0xff] ^ table[6][low >> 8 & 0xff] ^ table[5][low >> 16 & 0xff] ^
                      table[4][low >> 24] ^ table[3][high & 0xff] ^ table[2][high >> 8 & 0xff] ^
                      table[1][high >> 16 & 0xff] ^ table[0][high >> 24];
        }
        for (; n > 0; n--, b++)
                crc = crc >> 8 ^ table[0][(crc ^ *b) & 0xff];
        return ~crc;
}

#ifdef __x86_64__
/* The instruction takes three cycles and one can begin with each: three stretches side by side take the time of one.
 * Their sums are then joined: that of the left one is carried over the length of the others (lane_shift). */
#define LANE 4096u

static uint32_t lane_shift[4][256];
static pthread_once_t lane_once = PTHREAD_ONCE_INIT;

static void make_lane_shift(void)
{
        static const uint8_t zeros[LANE];

        for (unsigned k = 0; k < 4; k++)
                for (uint32_t i = 0; i < 256; i++) /* linear: so a table per byte of the sum is enough */
                        lane_shift[k][i] = ~crc32c_portable(~(i << (8 * k)), zeros, LANE);
}

static uint32_t over_a_lane(uint32_t crc)
{
        return lane_shift[0][crc & 0xff] ^ lane_shift[1][crc >> 8 & 0xff] ^ lane_shift[2][crc >> 16 & 0xff] ^
               lane_shift[3][crc >> 24];
}

static uint64_t word(const uint8_t *b)
{
        uint64_t w;

        memcpy(&w, b, sizeof(w));
        return w;
}

__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t start, const void *p, size_t n)
{
        const uint8_t *b = p;
        uint64_t crc = ~start;

        (void)pthread_once(&lane_once, make_lane_shift);
        for (; n >= 3 * LANE; n -= 3 * LANE, b += 3 * LANE) {
                uint64_t second = 0, third = 0;

                for (size_t i = 0; i < LANE; i += 8) {
                        crc = __builtin_ia32_crc32di(crc, word(b + i));
                        second = __builtin_ia32_crc32di(second, word(b + LANE + i));
                        third = __builtin_ia32_crc32di(third, word(b + 2 * LANE + i));
                }
                crc = over_a_lane(over_a_lane((uint32_t)crc) ^ (uint32_t)second) ^ third;
        }
        for (; n >= 8; n -= 8, b += 8)
                crc = __builtin_ia32_crc32di(crc, word(b));
        for (; n > 0; n--, b++)
                crc = __builtin_ia32_crc32qi((uint32_t)crc, *b);
        return ~(uint32_t)crc;
}

uint32_t crc32c(uint32_t crc, const void *p, size_t n)
{
        return __builtin_cpu_supports("sse4.2") ? by_instruction(crc, p, n) : crc32c_portable(crc, p, n);
}
#else
uint32_t crc32c(uint32_t crc, const void *p, size_t n)
{
        return crc32c_portable(crc, p, n);
}
#endif
