#include "interpreter/jupyter/json_text.h"

#include <errno.h>

struct scan {
        const char *at, *end;
        struct buf *out; /* NULL: only look */
        unsigned depth;
};

static int scan_put(struct scan *s, const char *p, size_t n)
{
        return s->out && n ? buf_add(s->out, p, n) : 0;
}

static void scan_skip_blanks(struct scan *s)
{
        while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' || *s->at == '\n' || *s->at == '\r'))
                s->at++;
}

static bool scan_take(struct scan *s, char c)
{
        if (s->at == s->end || *s->at != c)
                return false;
        s->at++;
        return true;
}

/* ---- characters ---- */

static int put_unit(struct buf *out, unsigned unit)
{
        static const char digits[] = "0123456789abcdef";
        char text[6] = {'\\', 'u'};

        for (int i = 0; i < 4; i++)
                text[2 + i] = digits[unit >> (12 - 4 * i) & 15];
        return out ? buf_add(out, text, sizeof(text)) : 0;
}

static int put_character(struct buf *out, unsigned c)
{
        int r;

        if (c < 0x10000)
                return put_unit(out, c);
        r = put_unit(out, 0xd800 + ((c - 0x10000) >> 10));
        return r < 0 ? r : put_unit(out, 0xdc00 + ((c - 0x10000) & 0x3ff));
}

/* The character that begins at p: its length in bytes, 0 when these bytes are no UTF-8. */
static size_t utf8_decode(const unsigned char *p, size_t n, unsigned *ret)
{
        static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
        size_t length = p[0] >= 0xf0 && p[0] < 0xf5 ? 4 : p[0] >= 0xe0 ? 3 : p[0] >= 0xc2 ? 2 : 0;
        unsigned c;

        if (p[0] >= 0xf5 || length == 0 || n < length)
                return 0;
        c = p[0] & (0xffu >> (length + 1));
        for (size_t i = 1; i < length; i++) {
                if ((p[i] & 0xc0) != 0x80)
                        return 0;
                c = c << 6 | (p[i] & 0x3f);
        }
        if (c < least[length] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
                return 0;
        *ret = c;
        return length;
}

static bool is_plain(unsigned char c)
{
        return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

#define EACH(byte) (0x0101010101010101u * (byte))

/* Has one of the eight bytes this value? */
static uint64_t has_byte(uint64_t word, uint8_t byte)
{
        uint64_t x = word ^ EACH(byte);

        return (x - EACH(1)) & ~x & EACH(0x80);
}

/* Where the plain characters end.  Most of what kernels print is plain, so eight at a time. */
static const char *skip_plain(const char *p, const char *end)
{
        uint64_t word;

        while (end - p >= 8) {
                memcpy(&word, p, sizeof(word));
                if ((word & EACH(0x80)) || ((word - EACH(0x20)) & ~word & EACH(0x80)) || has_byte(word, '"') ||
                    has_byte(word, '\\'))
                        break;
                p += 8;
        }
        while (p < end && is_plain((unsigned char)*p))
                p++;
        return p;
}

/* Bytes that are not plain: a control character, or the beginning of a character beyond ASCII. */
static int scan_other_byte(struct scan *s)
{
        const unsigned char *p = (const unsigned char *)s->at;
        unsigned c = 0xfffd;
        size_t n = 1;

        if (*p < 0x20)
                c = *p;
        else
                n = utf8_decode(p, (size_t)(s->end - s->at), &c);
        s->at += n ? n : 1;
        return put_character(s->out, c);
}

static int hex4(const char *p, const char *end)
{
        int value = 0;

        if (end - p < 4)
                return -1;
        for (int i = 0; i < 4; i++) {
                int digit = hex_value(p[i]);

                if (digit < 0)
                        return -1;
                value = value << 4 | digit;
        }
        return value;
}

static int scan_unicode_escape(struct scan *s) /* behind "\u" */
{
        int unit = hex4(s->at, s->end), low;

        if (unit < 0)
                return -EINVAL;
        s->at += 4;
        if (unit < 0xd800 || unit >= 0xe000)
                return put_unit(s->out, (unsigned)unit);
        low = unit < 0xdc00 && s->end - s->at >= 6 && s->at[0] == '\\' && s->at[1] == 'u' ? hex4(s->at + 2, s->end)
                                                                                          : -1;
        if (low < 0xdc00 || low >= 0xe000)
                return put_unit(s->out, 0xfffd); /* half of a pair */
        s->at += 6;
        return put_character(s->out, 0x10000 + ((unsigned)(unit - 0xd800) << 10) + (unsigned)(low - 0xdc00));
}

static int scan_escape(struct scan *s) /* at the backslash */
{
        const char *begin = s->at++;

        if (s->at == s->end)
                return -EINVAL;
        if (*s->at == 'u') {
                s->at++;
                return scan_unicode_escape(s);
        }
        if (!memchr("\"\\/bfnrt", *s->at, 8))
                return -EINVAL;
        s->at++;
        return scan_put(s, begin, 2);
}

static int scan_string_inner(struct scan *s) /* behind the first quote; ends behind the last */
{
        int r = 0;

        while (r == 0 && s->at < s->end) {
                const char *begin = s->at;

                s->at = skip_plain(s->at, s->end);
                r = scan_put(s, begin, (size_t)(s->at - begin));
                if (r < 0 || s->at == s->end)
                        break;
                if (*s->at == '"') {
                        s->at++;
                        return 0;
                }
                r = *s->at == '\\' ? scan_escape(s) : scan_other_byte(s);
        }
        return r < 0 ? r : -EINVAL;
}

static int scan_string(struct scan *s)
{
        int r;

        if (!scan_take(s, '"'))
                return -EINVAL;
        r = scan_put(s, "\"", 1);
        if (r == 0)
                r = scan_string_inner(s);
        return r < 0 ? r : scan_put(s, "\"", 1);
}

/* ---- words and numbers ---- */

static bool scan_word(struct scan *s, const char *word)
{
        size_t n = strlen(word);

        if ((size_t)(s->end - s->at) < n || memcmp(s->at, word, n) != 0)
                return false;
        s->at += n;
        return true;
}

static bool scan_digits(struct scan *s)
{
        const char *begin = s->at;

        while (s->at < s->end && *s->at >= '0' && *s->at <= '9')
                s->at++;
        return s->at > begin;
}

static int scan_number(struct scan *s)
{
        const char *begin = s->at;

        (void)scan_take(s, '-');
        if (scan_word(s, "Infinity"))
                return scan_put(s, "null", 4);
        if (!scan_take(s, '0') && !scan_digits(s))
                return -EINVAL;
        if (scan_take(s, '.') && !scan_digits(s))
                return -EINVAL;
        if (scan_take(s, 'e') || scan_take(s, 'E')) {
                if (!scan_take(s, '+'))
                        (void)scan_take(s, '-');
                if (!scan_digits(s))
                        return -EINVAL;
        }
        return scan_put(s, begin, (size_t)(s->at - begin));
}

static int scan_literal(struct scan *s)
{
        static const struct {
                const char *read, *written;
        } words[] = {{"true", "true"}, {"false", "false"}, {"null", "null"}, {"NaN", "null"}};

        for (size_t i = 0; i < ARRAY_LEN(words); i++)
                if (scan_word(s, words[i].read))
                        return scan_put(s, words[i].written, strlen(words[i].written));
        return scan_number(s);
}

/* ---- values ---- */

static int scan_value(struct scan *s);

static int scan_member(struct scan *s)
{
        int r;

        scan_skip_blanks(s);
        r = scan_string(s);
        if (r < 0)
                return r;
        scan_skip_blanks(s);
        if (!scan_take(s, ':'))
                return -EINVAL;
        r = scan_put(s, ":", 1);
        return r < 0 ? r : scan_value(s);
}

static int scan_items(struct scan *s, char close, int (*item)(struct scan *s)) /* behind the opening brace */
{
        char text[1] = {close};
        int r;

        scan_skip_blanks(s);
        if (scan_take(s, close))
                return scan_put(s, text, 1);
        for (;;) {
                r = item(s);
                if (r < 0)
                        return r;
                scan_skip_blanks(s);
                if (scan_take(s, close))
                        return scan_put(s, text, 1);
                if (!scan_take(s, ','))
                        return -EINVAL;
                r = scan_put(s, ",", 1);
                if (r < 0)
                        return r;
        }
}

/* Over a value that is nested too deeply for its own brackets to be compared: only their number, and strings, are looked at. */
static int scan_skip_deep(struct scan *s)
{
        size_t depth = 0;
        int r;

        while (s->at < s->end) {
                if (*s->at == '"') {
                        r = scan_string(s);
                        if (r < 0)
                                return r;
                        continue;
                }
                if (*s->at == '{' || *s->at == '[')
                        depth++;
                else if (*s->at == '}' || *s->at == ']')
                        depth--;
                s->at++;
                if (depth == 0)
                        return 0;
        }
        return -EINVAL;
}

static int scan_nested(struct scan *s)
{
        char open;
        int r;

        if (s->depth == JSON_TEXT_DEPTH_MAX)
                return s->out ? -ELOOP : scan_skip_deep(s);
        open = *s->at++;
        s->depth++;
        r = scan_put(s, &open, 1);
        if (r == 0)
                r = open == '{' ? scan_items(s, '}', scan_member) : scan_items(s, ']', scan_value);
        s->depth--;
        return r;
}

static int scan_value(struct scan *s)
{
        scan_skip_blanks(s);
        if (s->at == s->end)
                return -EINVAL;
        if (*s->at == '{' || *s->at == '[')
                return scan_nested(s);
        return *s->at == '"' ? scan_string(s) : scan_literal(s);
}

/* ---- */

static struct scan scan_of(struct str text, struct buf *out)
{
        const char *begin = text.p ? text.p : "";

        return (struct scan){.at = begin, .end = begin + text.n, .out = out};
}

int json_text_copy(struct str value, struct buf *out)
{
        struct scan s = scan_of(value, out);
        int r = scan_value(&s);

        if (r < 0)
                return r;
        scan_skip_blanks(&s);
        return s.at == s.end ? 0 : -EINVAL;
}

bool json_text_is_valid(struct str text)
{
        return json_text_copy(text, NULL) == 0;
}

int json_text_copy_inner(struct str value, struct buf *out)
{
        struct scan s = scan_of(value, out);
        int r;

        scan_skip_blanks(&s);
        if (!scan_take(&s, '"'))
                return -EINVAL;
        r = scan_string_inner(&s);
        if (r < 0)
                return r;
        scan_skip_blanks(&s);
        return s.at == s.end ? 0 : -EINVAL;
}

int json_text_quote(struct str text, struct buf *out)
{
        struct scan s = scan_of(text, out);
        int r = buf_add(out, "\"", 1);

        while (r == 0 && s.at < s.end) {
                const char *begin = s.at;

                s.at = skip_plain(s.at, s.end);
                r = scan_put(&s, begin, (size_t)(s.at - begin));
                if (r < 0 || s.at == s.end)
                        break;
                if (*s.at == '"' || *s.at == '\\')
                        r = buf_addf(out, "\\%c", *s.at++);
                else if (*s.at == '\n')
                        r = buf_add(out, "\\n", (s.at++, 2));
                else
                        r = scan_other_byte(&s);
        }
        return r < 0 ? r : buf_add(out, "\"", 1);
}

/* Behind the brace or behind a comma: is there an item?  1, 0 at the closing brace, -EINVAL. */
static int cursor_begin_item(struct json_cursor *c, struct scan *s, char open, char close)
{
        scan_skip_blanks(s);
        if (!c->is_begun) {
                if (!scan_take(s, open))
                        return -EINVAL;
                c->is_begun = true;
                scan_skip_blanks(s);
                return scan_take(s, close) ? 0 : 1;
        }
        if (scan_take(s, close))
                return 0;
        return scan_take(s, ',') ? 1 : -EINVAL;
}

static int cursor_value(struct json_cursor *c, struct scan *s, struct str *ret)
{
        const char *begin;
        int r;

        scan_skip_blanks(s);
        begin = s->at;
        r = scan_value(s);
        if (r < 0)
                return r;
        *ret = (struct str){begin, (size_t)(s->at - begin)};
        c->left = (struct str){s->at, (size_t)(s->end - s->at)};
        return 1;
}

int json_text_next(struct json_cursor *c, struct json_member *ret)
{
        struct scan s = scan_of(c->left, NULL);
        struct json_member found = {0};
        int r = cursor_begin_item(c, &s, '{', '}');

        if (r <= 0)
                return r;
        scan_skip_blanks(&s);
        found.key.p = s.at + 1;
        r = scan_string(&s);
        if (r < 0)
                return r;
        found.key.n = (size_t)(s.at - 1 - found.key.p);
        scan_skip_blanks(&s);
        if (!scan_take(&s, ':'))
                return -EINVAL;
        r = cursor_value(c, &s, &found.value);
        if (r > 0)
                *ret = found;
        return r;
}

int json_text_next_element(struct json_cursor *c, struct str *ret)
{
        struct scan s = scan_of(c->left, NULL);
        int r = cursor_begin_item(c, &s, '[', ']');

        return r <= 0 ? r : cursor_value(c, &s, ret);
}

struct str json_text_get(struct str object, const char *key)
{
        struct json_cursor c = {.left = object};
        struct json_member m;

        while (json_text_next(&c, &m) > 0)
                if (str_is(m.key, key))
                        return m.value;
        return (struct str){0};
}

struct str json_text_get_raw(struct str object, const char *key)
{
        struct str value = json_text_get(object, key);

        if (value.n < 2 || value.p[0] != '"')
                return (struct str){0};
        return (struct str){value.p + 1, value.n - 2};
}

int64_t json_text_get_int(struct str object, const char *key)
{
        uint64_t n;

        return parse_u64(json_text_get(object, key), 0, INT64_MAX, &n) < 0 ? -1 : (int64_t)n;
}
