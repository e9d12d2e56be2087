#include "base/str.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

static char lower(char c)
{
        return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

bool str_ieq(struct str a, struct str b)
{
        if (a.n != b.n)
                return false;
        for (size_t i = 0; i < a.n; i++)
                if (lower(a.p[i]) != lower(b.p[i]))
                        return false;
        return true;
}

bool str_iis(struct str a, const char *b)
{
        return str_ieq(a, str_of(b));
}

bool str_starts(struct str s, const char *prefix)
{
        size_t n = strlen(prefix);

        return s.n >= n && memcmp(s.p, prefix, n) == 0;
}

bool str_ends(struct str s, const char *suffix)
{
        size_t n = strlen(suffix);

        return s.n >= n && memcmp(s.p + s.n - n, suffix, n) == 0;
}

struct str str_trim(struct str s)
{
        while (s.n && (s.p[0] == ' ' || s.p[0] == '\t'))
                s.p++, s.n--;
        while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
                s.n--;
        return s;
}

bool str_cut(struct str *s, char sep, struct str *head)
{
        const char *at = s->n ? memchr(s->p, sep, s->n) : NULL;

        if (!at) {
                *head = *s;
                *s = (struct str){s->p + s->n, 0};
                return false;
        }
        *head = (struct str){s->p, (size_t)(at - s->p)};
        *s = (struct str){at + 1, s->n - head->n - 1};
        return true;
}

char *str_dup(struct str s)
{
        char *copy = malloc(s.n + 1);

        if (!copy)
                return NULL;
        if (s.n)
                memcpy(copy, s.p, s.n);
        copy[s.n] = 0;
        return copy;
}

bool str_has_nul(struct str s)
{
        return s.n && memchr(s.p, 0, s.n);
}

bool str_is_utf8(struct str s)
{
        const uint8_t *p = (const uint8_t *)s.p, *end = p + s.n;

        while (p < end) {
                uint32_t c = *p++, least;
                int more;

                if (c < 0x80)
                        continue;
                if ((c & 0xe0) == 0xc0)
                        more = 1, c &= 0x1f, least = 0x80;
                else if ((c & 0xf0) == 0xe0)
                        more = 2, c &= 0x0f, least = 0x800;
                else if ((c & 0xf8) == 0xf0)
                        more = 3, c &= 0x07, least = 0x10000;
                else
                        return false;
                if (end - p < more)
                        return false;
                while (more--) {
                        if ((*p & 0xc0) != 0x80)
                                return false;
                        c = c << 6 | (*p++ & 0x3f);
                }
                if (c < least || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
                        return false;
        }
        return true;
}

bool str_eq_secret(struct str a, struct str b)
{
        unsigned char diff = 0;

        if (a.n != b.n)
                return false;
        for (size_t i = 0; i < a.n; i++)
                diff |= (unsigned char)(a.p[i] ^ b.p[i]);
        return diff == 0;
}

int parse_u64(struct str s, uint64_t min, uint64_t max, uint64_t *ret)
{
        uint64_t v = 0;

        if (s.n == 0)
                return -EINVAL;
        for (size_t i = 0; i < s.n; i++) {
                if (s.p[i] < '0' || s.p[i] > '9')
                        return -EINVAL;
                if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(s.p[i] - '0'), &v))
                        return -ERANGE;
        }
        if (v < min || v > max)
                return -ERANGE;
        *ret = v;
        return 0;
}

int parse_u32(struct str s, uint32_t min, uint32_t max, uint32_t *ret)
{
        uint64_t v;
        int r = parse_u64(s, min, max, &v);

        if (r < 0)
                return r;
        *ret = (uint32_t)v;
        return 0;
}

void hex_encode(const void *p, size_t n, char *out)
{
        static const char digits[] = "0123456789abcdef";
        const uint8_t *in = p;

        for (size_t i = 0; i < n; i++) {
                *out++ = digits[in[i] >> 4];
                *out++ = digits[in[i] & 15];
        }
        *out = 0;
}

int hex_value(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        if (c >= 'A' && c <= 'F')
                return c - 'A' + 10;
        return -1;
}

int random_try(void *out, size_t n)
{
        uint8_t *at = out;

        while (n) {
                ssize_t got = getrandom(at, n, 0);

                if (got < 0 && errno != EINTR)
                        return -errno;
                if (got > 0) {
                        at += got;
                        n -= (size_t)got;
                }
        }
        return 0;
}

void random_bytes(void *out, size_t n)
{
        int r = random_try(out, n);

        assert(r == 0); /* once the pool is ready, only a filter of system calls can refuse */
        (void)r;
}

void random_id(char *out, size_t n)
{
        static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz0123456789";
        uint8_t bytes[64];
        size_t have = 0;

        for (size_t i = 0; i < n;) {
                if (have == 0) {
                        random_bytes(bytes, sizeof(bytes));
                        have = sizeof(bytes);
                }
                have--;
                if (bytes[have] >= 252) /* 252 = 7 * 36: no character more likely than another */
                        continue;
                out[i++] = alphabet[bytes[have] % 36];
        }
        out[n] = 0;
}
