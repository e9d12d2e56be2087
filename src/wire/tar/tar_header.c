#include "wire/tar/tar_header.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int number_of_base_256(const unsigned char *p, size_t n, int64_t *ret)
{
        bool is_negative = p[0] & 0x40;
        uint64_t v = is_negative ? UINT64_MAX : 0;

        for (size_t i = 0; i < n; i++) {
                unsigned byte = i ? p[i] : (p[0] & 0x7fu) | (is_negative ? 0x80u : 0);

                /* What is shifted out at the top must be sign. */
                if ((v >> 55) != (is_negative ? 0x1ffu : 0))
                        return -ERANGE;
                v = v << 8 | byte;
        }
        *ret = (int64_t)v;
        return 0;
}

int tar_number(const char *field, size_t n, int64_t *ret)
{
        uint64_t v = 0;
        size_t i = 0;

        if ((unsigned char)field[0] & 0x80)
                return number_of_base_256((const unsigned char *)field, n, ret);
        while (i < n && (field[i] == ' ' || field[i] == '\0'))
                i++;
        for (; i < n && field[i] >= '0' && field[i] <= '7'; i++) {
                if (v >> 60)
                        return -ERANGE;
                v = v << 3 | (unsigned)(field[i] - '0');
        }
        for (; i < n; i++)
                if (field[i] != ' ' && field[i] != '\0')
                        return -EINVAL;
        *ret = (int64_t)v;
        return 0;
}

bool tar_header_is_zero(const struct tar_header *h)
{
        static const struct tar_header zero;

        return memcmp(h, &zero, sizeof(zero)) == 0;
}

/* The sum of all bytes, with the field itself as blanks; old programs added them as signed ones. */
static void header_sums(const struct tar_header *h, int64_t *ret_unsigned, int64_t *ret_signed)
{
        const unsigned char *p = (const unsigned char *)h;
        size_t from = offsetof(struct tar_header, checksum), to = from + sizeof(h->checksum);

        *ret_unsigned = *ret_signed = 0;
        for (size_t i = 0; i < sizeof(*h); i++) {
                unsigned char c = i >= from && i < to ? ' ' : p[i];

                *ret_unsigned += c;
                *ret_signed += (signed char)c;
        }
}

bool tar_header_sum_is_right(const struct tar_header *h)
{
        int64_t as_unsigned, as_signed, said;

        header_sums(h, &as_unsigned, &as_signed);
        return tar_number(h->checksum, sizeof(h->checksum), &said) == 0 && (said == as_unsigned || said == as_signed);
}

void tar_header_set_sum(struct tar_header *h)
{
        int64_t sum, ignored;
        char text[16];

        header_sums(h, &sum, &ignored);
        (void)snprintf(text, sizeof(text), "%06o", (unsigned)sum);
        memcpy(h->checksum, text, 7);
        h->checksum[7] = ' ';
}
