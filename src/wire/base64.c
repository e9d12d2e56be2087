#include "wire/base64.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

size_t base64_encode(const void *p, size_t n, bool pad, char *out)
{
        static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        const uint8_t *in = p;
        char *at = out;
        uint32_t v;

        for (; n >= 3; in += 3, n -= 3) {
                v = (uint32_t)in[0] << 16 | (uint32_t)in[1] << 8 | in[2];
                *at++ = digits[v >> 18];
                *at++ = digits[v >> 12 & 63];
                *at++ = digits[v >> 6 & 63];
                *at++ = digits[v & 63];
        }
        if (n == 0)
                return (size_t)(at - out);
        v = (uint32_t)in[0] << 16 | (n == 2 ? (uint32_t)in[1] << 8 : 0);
        *at++ = digits[v >> 18];
        *at++ = digits[v >> 12 & 63];
        if (n == 2)
                *at++ = digits[v >> 6 & 63];
        for (; pad && n < 3; n++)
                *at++ = '=';
        return (size_t)(at - out);
}

int base64_add(struct buf *out, const void *p, size_t n, bool pad)
{
        size_t len = pad ? BASE64_LEN(n) : n / 3 * 4 + (n % 3 ? n % 3 + 1 : 0);
        uint8_t *at;
        int r;

        if (n == 0)
                return 0;
        r = buf_reserve(out, len, &at);
        if (r < 0)
                return r;
        buf_commit(out, base64_encode(p, n, pad, (char *)at));
        return 0;
}

/* Value of each digit plus one, so that zero is "no digit". */
static const uint8_t values[256] = {
        ['A'] = 1,  ['B'] = 2,  ['C'] = 3,  ['D'] = 4,  ['E'] = 5,  ['F'] = 6,  ['G'] = 7,  ['H'] = 8,  ['I'] = 9,
        ['J'] = 10, ['K'] = 11, ['L'] = 12, ['M'] = 13, ['N'] = 14, ['O'] = 15, ['P'] = 16, ['Q'] = 17, ['R'] = 18,
        ['S'] = 19, ['T'] = 20, ['U'] = 21, ['V'] = 22, ['W'] = 23, ['X'] = 24, ['Y'] = 25, ['Z'] = 26, ['a'] = 27,
        ['b'] = 28, ['c'] = 29, ['d'] = 30, ['e'] = 31, ['f'] = 32, ['g'] = 33, ['h'] = 34, ['i'] = 35, ['j'] = 36,
        ['k'] = 37, ['l'] = 38, ['m'] = 39, ['n'] = 40, ['o'] = 41, ['p'] = 42, ['q'] = 43, ['r'] = 44, ['s'] = 45,
        ['t'] = 46, ['u'] = 47, ['v'] = 48, ['w'] = 49, ['x'] = 50, ['y'] = 51, ['z'] = 52, ['0'] = 53, ['1'] = 54,
        ['2'] = 55, ['3'] = 56, ['4'] = 57, ['5'] = 58, ['6'] = 59, ['7'] = 60, ['8'] = 61, ['9'] = 62, ['+'] = 63,
        ['/'] = 64, ['-'] = 63, ['_'] = 64,
};

static int decode_to(struct str s, uint8_t *out) /* s without padding */
{
        uint32_t v = 0;
        unsigned bits = 0;

        for (size_t i = 0; i < s.n; i++) {
                uint8_t value = values[(uint8_t)s.p[i]];

                if (value == 0)
                        return -EINVAL;
                v = v << 6 | (value - 1u);
                bits += 6;
                if (bits >= 8) {
                        bits -= 8;
                        *out++ = (uint8_t)(v >> bits);
                        v &= (1u << bits) - 1;
                }
        }
        return v ? -EINVAL : 0; /* bits that belong to no byte: not what an encoder writes */
}

int base64_decode(struct str s, struct buf *out)
{
        uint8_t *at;
        size_t n;
        int r;

        if (s.n && s.n % 4 == 0 && s.p[s.n - 1] == '=')
                s.n -= s.p[s.n - 2] == '=' ? 2 : 1;
        if (s.n % 4 == 1)
                return -EINVAL;
        n = s.n / 4 * 3 + (s.n % 4 ? s.n % 4 - 1 : 0);
        if (n == 0)
                return 0;
        r = buf_reserve(out, n, &at);
        if (r < 0)
                return r;
        r = decode_to(s, at);
        if (r < 0)
                return r;
        buf_commit(out, n);
        return 0;
}
