#include "fuzz.h"
#include "wire/url.h"

static void parse(struct str s)
{
        struct url u;
        size_t len = 0;

        if (url_parse(s, &u) != 0)
                return;
        MUST(u.path.n > 0 && u.path.p[0] == '/' && !memchr(u.path.p, '?', u.path.n));
        for (size_t i = 0; i < s.n; i++)
                MUST((uint8_t)s.p[i] > 0x20 && (uint8_t)s.p[i] < 0x7f && s.p[i] != '#');
        for (size_t i = 0; i < u.segment_count; i++) { /* joined again they are the path */
                MUST(u.path.p[len] == '/');
                MUST(len + 1 + u.segments[i].n <= u.path.n);
                MUST(memcmp(u.path.p + len + 1, u.segments[i].p, u.segments[i].n) == 0);
                MUST(u.segments[i].n == 0 || !memchr(u.segments[i].p, '/', u.segments[i].n));
                len += 1 + u.segments[i].n;
        }
        MUST(len == (u.segment_count ? u.path.n : 0));
        MUST(u.segment_count || u.path.n == 1);
}

static void decode(struct str s, bool plus_is_space)
{
        AUTO_BUF struct buf plain = BUF_INIT(1 << 20), text = BUF_INIT(1 << 22), back = BUF_INIT(1 << 20);
        AUTO_FREE char *dup = NULL;
        int r = url_decode(s, plus_is_space, &plain), r_dup = url_decode_dup(s, plus_is_space, &dup);
        struct str got = {(const char *)buf_at(&plain), plain.len};

        if (r < 0 || str_has_nul(got)) {
                MUST(r_dup < 0 && !dup);
                return;
        }
        MUST(r_dup == 0 && str_eq(str_of(dup), got));
        MUST(url_encode(got, &text) == 0);
        MUST(url_decode((struct str){(const char *)buf_at(&text), text.len}, plus_is_space, &back) == 0);
        MUST(str_eq((struct str){(const char *)buf_at(&back), back.len}, got));
}

static void query(struct str s)
{
        static const char *const names[] = {"", "a", "path", "signature"};

        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                AUTO_FREE char *value = NULL;

                MUST(url_query_get(s, names[i], &value) == 0 || !value);
        }
}

/* Any parameter that was encoded is found again, whatever stands around it. */
static void must_be_found(struct str s)
{
        AUTO_BUF struct buf text = BUF_INIT(1 << 22);
        AUTO_FREE char *value = NULL;

        if (str_has_nul(s))
                return;
        MUST(buf_addc(&text, "x=1&y&=&needle=") == 0 && url_encode(s, &text) == 0);
        MUST(buf_addc(&text, "&needle=2") == 0);
        MUST(url_query_get((struct str){(const char *)buf_at(&text), text.len}, "needle", &value) == 0);
        MUST(value && str_eq(str_of(value), s));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        AUTO_FREE uint8_t *copy = fuzz_copy(data, size);
        struct str s = {(const char *)copy, size};

        parse(s);
        decode(s, false);
        decode(s, true);
        query(s);
        must_be_found(s);
        return 0;
}
