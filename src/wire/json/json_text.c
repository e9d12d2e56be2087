#include "wire/json/json_text.h"

#include <errno.h>

/* ---- is it JSON? ---- */

struct check {
        struct str text;
        size_t at;
        unsigned depth;
        bool in_object[JSON_TEXT_DEPTH_MAX]; /* by depth: which bracket closes it */
};

static bool is_space(char c)
{
        return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_digit(char c)
{
        return c >= '0' && c <= '9';
}

static size_t skip_space(struct str text, size_t at)
{
        while (at < text.n && is_space(text.p[at]))
                at++;
        return at;
}

static char check_peek(const struct check *c)
{
        return c->at < c->text.n ? c->text.p[c->at] : '\0';
}

static bool check_digits(struct check *c)
{
        size_t from = c->at;

        while (is_digit(check_peek(c)))
                c->at++;
        return c->at > from;
}

static bool check_number(struct check *c)
{
        if (check_peek(c) == '-')
                c->at++;
        if (check_peek(c) == '0')
                c->at++;
        else if (!check_digits(c))
                return false;
        if (check_peek(c) == '.') {
                c->at++;
                if (!check_digits(c))
                        return false;
        }
        if (check_peek(c) == 'e' || check_peek(c) == 'E') {
                c->at++;
                if (check_peek(c) == '+' || check_peek(c) == '-')
                        c->at++;
                return check_digits(c);
        }
        return true;
}

static bool check_escape(struct check *c) /* behind the backslash */
{
        char kind = check_peek(c);

        if (kind == '\0' || !strchr("\"\\/bfnrtu", kind))
                return false;
        c->at++;
        for (int i = 0; kind == 'u' && i < 4; i++, c->at++)
                if (hex_value(check_peek(c)) < 0)
                        return false;
        return true;
}

static bool check_string(struct check *c)
{
        c->at++; /* the quote */
        while (c->at < c->text.n) {
                char b = c->text.p[c->at];

                if (b == '"') {
                        c->at++;
                        return true;
                }
                if ((unsigned char)b < 0x20)
                        return false;
                c->at++;
                if (b == '\\' && !check_escape(c))
                        return false;
        }
        return false;
}

static bool check_word(struct check *c, const char *word)
{
        if (!str_starts((struct str){c->text.p + c->at, c->text.n - c->at}, word))
                return false;
        c->at += strlen(word);
        return true;
}

static bool check_key(struct check *c) /* "key": and the space behind it */
{
        if (check_peek(c) != '"' || !check_string(c))
                return false;
        c->at = skip_space(c->text, c->at);
        if (check_peek(c) != ':')
                return false;
        c->at = skip_space(c->text, c->at + 1);
        return true;
}

/* A scalar, or an opening bracket with what stands before its first value.  *ret_is_open: a value must follow. */
static int check_begin(struct check *c, bool *ret_is_open)
{
        char first = check_peek(c);

        *ret_is_open = false;
        if (first == '{' || first == '[') {
                if (c->depth == JSON_TEXT_DEPTH_MAX)
                        return -E2BIG;
                c->at = skip_space(c->text, c->at + 1);
                if (check_peek(c) == (first == '{' ? '}' : ']')) {
                        c->at++;
                        return 0;
                }
                c->in_object[c->depth++] = first == '{';
                *ret_is_open = true;
                return first == '[' || check_key(c) ? 0 : -EINVAL;
        }
        if (first == '"')
                return check_string(c) ? 0 : -EINVAL;
        if (first == 't' || first == 'f' || first == 'n')
                return check_word(c, first == 't' ? "true" : first == 'f' ? "false" : "null") ? 0 : -EINVAL;
        return check_number(c) ? 0 : -EINVAL;
}

/* Behind a value: close what ends here.  *ret_is_open: a comma came, and a value must follow. */
static int check_behind(struct check *c, bool *ret_is_open)
{
        *ret_is_open = false;
        while (c->depth > 0) {
                bool in_object = c->in_object[c->depth - 1];

                c->at = skip_space(c->text, c->at);
                if (check_peek(c) == ',') {
                        c->at = skip_space(c->text, c->at + 1);
                        *ret_is_open = true;
                        return !in_object || check_key(c) ? 0 : -EINVAL;
                }
                if (check_peek(c) != (in_object ? '}' : ']'))
                        return -EINVAL;
                c->at++;
                c->depth--;
        }
        return 0;
}

int json_text_check(struct str text, struct str *ret_value, size_t *ret_bad)
{
        struct check c = {.text = text};
        size_t start = skip_space(text, 0);
        bool is_open = true;
        int r = str_is_utf8(text) ? 0 : -EINVAL;

        c.at = r == 0 ? start : 0;
        while (r == 0 && is_open) {
                r = check_begin(&c, &is_open);
                if (r == 0 && !is_open)
                        r = check_behind(&c, &is_open);
        }
        if (r == 0) {
                *ret_value = (struct str){text.p + start, c.at - start};
                c.at = skip_space(text, c.at);
                r = c.at == text.n ? 0 : -EINVAL;
        }
        if (r < 0 && ret_bad)
                *ret_bad = c.at;
        return r;
}

/* ---- walking over checked text ---- */

enum json_text_kind json_text_kind(struct str value)
{
        switch (value.n ? value.p[0] : '\0') {
        case '\0': return JSON_TEXT_NONE;
        case '{': return JSON_TEXT_OBJECT;
        case '[': return JSON_TEXT_ARRAY;
        case '"': return JSON_TEXT_STRING;
        case 't':
        case 'f': return JSON_TEXT_BOOL;
        case 'n': return JSON_TEXT_NULL;
        default: return JSON_TEXT_NUMBER;
        }
}

/* Where the string at p[at] ends, behind its quote. */
static size_t skip_string(struct str text, size_t at)
{
        for (at++; at < text.n && text.p[at] != '"'; at++)
                at += text.p[at] == '\\';
        return at < text.n ? at + 1 : text.n;
}

static size_t skip_value(struct str text, size_t at)
{
        unsigned depth = 0;

        do {
                char c = at < text.n ? text.p[at] : '\0';

                if (at >= text.n)
                        break;
                if (c == '"') {
                        at = skip_string(text, at);
                        continue;
                }
                depth += c == '{' || c == '[';
                depth -= c == '}' || c == ']';
                at++;
                if (c == '}' || c == ']' || depth > 0)
                        continue;
                while (at < text.n && !is_space(text.p[at]) && !strchr(",:]}", text.p[at])) /* a number or a word */
                        at++;
        } while (depth > 0);
        return at;
}

struct json_walk json_text_walk(struct str value)
{
        bool is_object = json_text_kind(value) == JSON_TEXT_OBJECT;

        if (!is_object && json_text_kind(value) != JSON_TEXT_ARRAY)
                return (struct json_walk){0};
        return (struct json_walk){{value.p + 1, value.n - 2}, is_object};
}

bool json_text_next(struct json_walk *w, struct str *ret_key, struct str *ret_value)
{
        size_t at = skip_space(w->rest, 0), end;

        if (at < w->rest.n && w->rest.p[at] == ',')
                at = skip_space(w->rest, at + 1);
        if (at >= w->rest.n)
                return false;
        if (w->is_object) {
                end = skip_string(w->rest, at);
                if (ret_key)
                        *ret_key = (struct str){w->rest.p + at, end - at};
                at = skip_space(w->rest, skip_space(w->rest, end) + 1);
        }
        end = skip_value(w->rest, at);
        *ret_value = (struct str){w->rest.p + at, end - at};
        w->rest = (struct str){w->rest.p + end, w->rest.n - end};
        return true;
}

struct str json_text_get(struct str object, const char *key)
{
        struct json_walk w = json_text_walk(object);
        struct str found = {NULL, 0}, name, value;

        while (w.is_object && json_text_next(&w, &name, &value))
                if (json_text_is(name, key))
                        found = value;
        return found;
}

/* ---- strings and numbers ---- */

static unsigned hex4(const char *p)
{
        unsigned code = 0;

        for (int i = 0; i < 4; i++)
                code = code << 4 | (unsigned)hex_value(p[i]);
        return code;
}

static size_t encode_utf8(unsigned code, char out[4])
{
        if (code < 0x80) {
                out[0] = (char)code;
                return 1;
        }
        if (code < 0x800) {
                out[0] = (char)(0xc0 | code >> 6);
                out[1] = (char)(0x80 | (code & 0x3f));
                return 2;
        }
        if (code < 0x10000) {
                out[0] = (char)(0xe0 | code >> 12);
                out[1] = (char)(0x80 | (code >> 6 & 0x3f));
                out[2] = (char)(0x80 | (code & 0x3f));
                return 3;
        }
        out[0] = (char)(0xf0 | code >> 18);
        out[1] = (char)(0x80 | (code >> 12 & 0x3f));
        out[2] = (char)(0x80 | (code >> 6 & 0x3f));
        out[3] = (char)(0x80 | (code & 0x3f));
        return 4;
}

/* \uXXXX, and the second half of a pair where one follows; *at is behind the u. */
static unsigned take_code(struct str s, size_t *at)
{
        unsigned code = hex4(s.p + *at), low;

        *at += 4;
        if (code < 0xd800 || code > 0xdfff)
                return code;
        if (code < 0xdc00 && *at + 6 <= s.n && s.p[*at] == '\\' && s.p[*at + 1] == 'u') {
                low = hex4(s.p + *at + 2);
                if (low >= 0xdc00 && low <= 0xdfff) {
                        *at += 6;
                        return 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                }
        }
        return 0xfffd;
}

/* The escape at *at, which moves behind it: the bytes that it stands for. */
static size_t take_escape(struct str s, size_t *at, char out[4])
{
        static const char letters[] = "bfnrt", meant[] = "\b\f\n\r\t";
        char c = s.p[*at + 1];
        const char *letter = strchr(letters, c);

        *at += 2;
        if (c == 'u')
                return encode_utf8(take_code(s, at), out);
        out[0] = letter ? meant[letter - letters] : c;
        return 1;
}

static struct str inner(struct str string)
{
        return (struct str){string.p + 1, string.n - 2};
}

int json_text_unquote(struct str string, struct buf *out)
{
        struct str s;
        size_t at = 0;
        int r = 0;

        if (json_text_kind(string) != JSON_TEXT_STRING)
                return -EINVAL;
        s = inner(string);
        while (r == 0 && at < s.n) {
                const char *escape = memchr(s.p + at, '\\', s.n - at);
                size_t n = escape ? (size_t)(escape - s.p) - at : s.n - at;
                char bytes[4];

                r = buf_add(out, s.p + at, n);
                at += n;
                if (r == 0 && at < s.n) {
                        n = take_escape(s, &at, bytes);
                        r = buf_add(out, bytes, n);
                }
        }
        return r;
}

bool json_text_plain(struct str string, struct str *ret)
{
        if (json_text_kind(string) != JSON_TEXT_STRING || memchr(string.p, '\\', string.n))
                return false;
        *ret = inner(string);
        return true;
}

bool json_text_is(struct str string, const char *text)
{
        struct str s, rest = str_of(text);
        size_t at = 0;

        if (json_text_kind(string) != JSON_TEXT_STRING)
                return false;
        s = inner(string);
        while (at < s.n) {
                char bytes[4] = {s.p[at]};
                size_t n = 1;

                if (s.p[at] == '\\')
                        n = take_escape(s, &at, bytes);
                else
                        at++;
                if (n > rest.n || memcmp(rest.p, bytes, n) != 0)
                        return false;
                rest = (struct str){rest.p + n, rest.n - n};
        }
        return rest.n == 0;
}

int json_text_integer(struct str number, int64_t *ret)
{
        bool is_negative = number.n && number.p[0] == '-';
        uint64_t size;

        if (json_text_kind(number) != JSON_TEXT_NUMBER ||
            parse_u64((struct str){number.p + is_negative, number.n - is_negative}, 0, INT64_MAX, &size) < 0)
                return -EINVAL;
        *ret = is_negative ? -(int64_t)size : (int64_t)size;
        return 0;
}
