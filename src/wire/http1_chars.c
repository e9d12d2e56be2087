#include "wire/http1_chars.h"

#include <string.h>

#define T HTTP1_CHAR_TOKEN
#define G HTTP1_CHAR_TARGET
#define V HTTP1_CHAR_VALUE
#define H HTTP1_CHAR_HOST
#define ALL (T | G | V | H)

const uint8_t http1_chars[256] = {
        ['\t'] = V,
        [' '] = V,
        ['!'] = ALL,
        ['"'] = G | V,
        ['#'] = T | V,
        ['$' ... '\''] = ALL,
        ['(' ... ')'] = G | V | H,
        ['*' ... '+'] = ALL,
        [','] = G | V,
        ['-' ... '.'] = ALL,
        ['/'] = G | V,
        ['0' ... '9'] = ALL,
        [':' ... ';'] = G | V | H,
        ['<'] = G | V,
        ['='] = G | V | H,
        ['>' ... '@'] = G | V,
        ['A' ... 'Z'] = ALL,
        ['['] = G | V | H,
        ['\\'] = G | V,
        [']'] = G | V | H,
        ['^'] = T | G | V,
        ['_'] = ALL,
        ['`'] = T | G | V,
        ['a' ... 'z'] = ALL,
        ['{'] = G | V,
        ['|'] = T | G | V,
        ['}'] = G | V,
        ['~'] = ALL,
        [0x80 ... 0xff] = V, /* obs-text: file names and the like in UTF-8 */
};

bool http1_all(struct str s, unsigned kind)
{
        for (size_t i = 0; i < s.n; i++)
                if (!http1_char_is(s.p[i], kind))
                        return false;
        return true;
}

#define EACH_BYTE(b) (~(uint64_t)0 / 255 * (b))

static bool has_control(uint64_t x) /* a byte below 0x20, or 0x7f */
{
        uint64_t del = x ^ EACH_BYTE(0x7f);

        return ((x - EACH_BYTE(0x20)) & ~x & EACH_BYTE(0x80)) || ((del - EACH_BYTE(1)) & ~del & EACH_BYTE(0x80));
}

bool http1_is_value(struct str s)
{
        uint64_t word;

        for (; s.n >= sizeof(word); s.p += sizeof(word), s.n -= sizeof(word)) {
                memcpy(&word, s.p, sizeof(word));
                if (has_control(word) && !http1_all((struct str){s.p, sizeof(word)}, HTTP1_CHAR_VALUE))
                        return false; /* no mere tab */
        }
        return http1_all(s, HTTP1_CHAR_VALUE);
}

bool http1_list_has(struct str list, struct str token)
{
        struct str item;
        bool has_more;

        do {
                has_more = str_cut(&list, ',', &item);
                if (str_ieq(str_trim(item), token))
                        return true;
        } while (has_more);
        return false;
}
