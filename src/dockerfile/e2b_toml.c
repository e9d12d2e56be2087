#include "dockerfile/e2b_toml.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/buf.h"

static const struct {
        const char *name;
        size_t offset;
        bool is_number;
} keys[] = {
        {"template_id", offsetof(struct e2b_toml, template_id), false},
        {"template_name", offsetof(struct e2b_toml, template_name), false},
        {"team_id", offsetof(struct e2b_toml, team_id), false},
        {"dockerfile", offsetof(struct e2b_toml, dockerfile), false},
        {"start_cmd", offsetof(struct e2b_toml, start_cmd), false},
        {"ready_cmd", offsetof(struct e2b_toml, ready_cmd), false},
        {"cpu_count", offsetof(struct e2b_toml, cpu_count), true},
        {"memory_mb", offsetof(struct e2b_toml, memory_mb), true},
};

struct toml {
        struct str text; /* all of it */
        size_t at;
        unsigned line;
        struct problems *problems;
        struct e2b_toml *to;
        unsigned seen; /* bits of keys */
};

static char peek(const struct toml *t, size_t ahead)
{
        return t->at + ahead < t->text.n ? t->text.p[t->at + ahead] : 0;
}

static bool is_end(const struct toml *t)
{
        return t->at >= t->text.n;
}

static void skip_blanks(struct toml *t)
{
        while (peek(t, 0) == ' ' || peek(t, 0) == '\t')
                t->at++;
}

static void skip_line(struct toml *t)
{
        while (!is_end(t) && peek(t, 0) != '\n')
                t->at++;
        if (!is_end(t))
                t->at++;
        t->line++;
}

static int wrong(struct toml *t, const char *what)
{
        problems_error(t->problems, t->line, "%s", what);
        return -EINVAL;
}

/* ---- texts ---- */

static int add_code_point(struct toml *t, unsigned digits, struct buf *out)
{
        uint32_t c = 0;
        char utf8[4];
        size_t n;

        for (unsigned i = 0; i < digits; i++) {
                int digit = hex_value(peek(t, 0));

                if (digit < 0)
                        return wrong(t, "\\u needs four hexadecimal digits, \\U eight");
                c = c << 4 | (uint32_t)digit;
                t->at++;
        }
        if (c == 0 || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
                return wrong(t, "an escape is no character");
        if (c < 0x80) {
                utf8[0] = (char)c;
                n = 1;
        } else {
                n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
                for (size_t i = n - 1; i > 0; i--, c >>= 6)
                        utf8[i] = (char)(0x80 | (c & 0x3f));
                utf8[0] = (char)((n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0) | c);
        }
        return buf_add(out, utf8, n);
}

static int add_escape(struct toml *t, bool is_long, struct buf *out)
{
        static const char from[] = "btnfre\"\\", to[] = "\b\t\n\f\r\033\"\\";
        char c = peek(t, 1);
        const char *found = c ? strchr(from, c) : NULL;

        t->at += 2;
        if (found)
                return buf_add(out, &to[found - from], 1);
        if (c == 'u' || c == 'U')
                return add_code_point(t, c == 'u' ? 4 : 8, out);
        if (is_long && (c == '\n' || c == ' ' || c == '\t' || c == '\r')) { /* the line goes on after all blanks */
                t->at--;
                while (!is_end(t) && memchr(" \t\r\n", peek(t, 0), 4)) {
                        if (peek(t, 0) == '\n')
                                t->line++;
                        t->at++;
                }
                return 0;
        }
        return wrong(t, "unknown escape in a text");
}

static bool at_quotes(const struct toml *t, char quote, unsigned count)
{
        for (unsigned i = 0; i < count; i++)
                if (peek(t, i) != quote)
                        return false;
        return true;
}

/* After the opening quotes: up to the closing ones. */
static int take_text(struct toml *t, char quote, unsigned count, struct buf *out)
{
        bool is_long = count == 3;
        int r = 0;

        if (is_long && peek(t, 0) == '\r' && peek(t, 1) == '\n')
                t->at++;
        if (is_long && peek(t, 0) == '\n') { /* the first line end does not count */
                t->at++;
                t->line++;
        }
        while (r == 0) {
                char c = peek(t, 0);

                if (is_end(t) || (c == '\n' && !is_long))
                        return wrong(t, "a text is not closed");
                if (at_quotes(t, quote, count) && !(is_long && at_quotes(t, quote, count + 1))) {
                        t->at += count;
                        return 0;
                }
                if (c == '\\' && quote == '"') {
                        r = add_escape(t, is_long, out);
                        continue;
                }
                if ((unsigned char)c < 0x20 && !(c == '\t' || (is_long && (c == '\n' || c == '\r'))))
                        return wrong(t, "a control character in a text");
                if (c == '\n')
                        t->line++;
                if (c != '\r')
                        r = buf_add(out, &c, 1);
                t->at++;
        }
        return r;
}

/* ---- values ---- */

static int take_string(struct toml *t, char **to)
{
        AUTO_BUF struct buf out = BUF_INIT(E2B_TOML_MAX);
        char quote = peek(t, 0);
        unsigned count = at_quotes(t, quote, 3) ? 3 : 1;
        int r;

        if (quote != '"' && quote != '\'')
                return wrong(t, "must be a text in quotes");
        t->at += count;
        r = take_text(t, quote, count, &out);
        if (r < 0)
                return r;
        free(*to);
        *to = str_dup((struct str){(const char *)buf_at(&out), out.len});
        return *to ? 0 : -ENOMEM;
}

static int take_number(struct toml *t, uint32_t *to)
{
        char digits[16];
        size_t n = 0;
        uint32_t value;

        if (peek(t, 0) == '+')
                t->at++;
        for (; (peek(t, 0) >= '0' && peek(t, 0) <= '9') || (peek(t, 0) == '_' && n); t->at++)
                if (peek(t, 0) != '_' && n < sizeof(digits))
                        digits[n++] = peek(t, 0);
        if (parse_u32((struct str){digits, n}, 1, UINT32_MAX, &value) < 0)
                return wrong(t, "must be a whole number from 1");
        *to = value;
        return 0;
}

static int take_value(struct toml *t, size_t key)
{
        void *to = (char *)t->to + keys[key].offset;

        return keys[key].is_number ? take_number(t, to) : take_string(t, to);
}

/* ---- lines ---- */

static int take_key(struct toml *t, size_t *ret)
{
        size_t from = t->at, n;
        char quote = peek(t, 0) == '"' || peek(t, 0) == '\'' ? peek(t, 0) : 0;

        if (quote)
                from = ++t->at;
        while (!is_end(t) && (quote ? peek(t, 0) != quote && peek(t, 0) != '\n' : !memchr(" \t=\r\n", peek(t, 0), 5)))
                t->at++;
        n = t->at - from;
        if (quote && peek(t, 0) == quote)
                t->at++;
        if (n == 0)
                return wrong(t, "must be KEY = VALUE");
        for (*ret = 0; *ret < ARRAY_LEN(keys); ++*ret)
                if (str_is((struct str){t->text.p + from, n}, keys[*ret].name))
                        return 0;
        problems_error(t->problems, t->line, "unknown key '%.*s'", n < 64 ? (int)n : 64, t->text.p + from);
        return -EINVAL;
}

static int take_line(struct toml *t)
{
        size_t key;
        int r;

        if (peek(t, 0) == '[')
                return wrong(t, "tables are not part of this file");
        r = take_key(t, &key);
        if (r < 0)
                return r;
        if (t->seen & 1u << key)
                return wrong(t, "a key is given twice");
        t->seen |= 1u << key;
        skip_blanks(t);
        if (peek(t, 0) != '=')
                return wrong(t, "must be KEY = VALUE");
        t->at++;
        skip_blanks(t);
        r = take_value(t, key);
        if (r < 0)
                return r;
        skip_blanks(t);
        if (peek(t, 0) == '\r')
                t->at++;
        if (!is_end(t) && peek(t, 0) != '\n' && peek(t, 0) != '#')
                return wrong(t, "something follows the value");
        return 0;
}

int e2b_toml_parse(struct str text, struct e2b_toml *ret, struct problems *problems)
{
        struct e2b_toml found = {0};
        struct toml t = {.text = text, .line = 1, .problems = problems, .to = &found};

        if (str_starts(text, "\xef\xbb\xbf"))
                t.at = 3;
        if (text.n > E2B_TOML_MAX || str_has_nul(text) || !str_is_utf8(text)) {
                problems_error(problems, 0, "%s", text.n > E2B_TOML_MAX ? "larger than 1 MiB" : "not UTF-8 text");
                return -EINVAL;
        }
        while (!is_end(&t) && problems->errors < PROBLEMS_MAX) {
                skip_blanks(&t);
                if (!memchr("\r\n#", peek(&t, 0), 3) && !is_end(&t)) {
                        int r = take_line(&t);

                        if (r < 0 && r != -EINVAL)
                                (void)problems_take(problems, t.line, r);
                }
                skip_line(&t);
        }
        if (problems_has_errors(problems)) {
                e2b_toml_done(&found);
                return -EINVAL;
        }
        *ret = found;
        return 0;
}

void e2b_toml_done(struct e2b_toml *t)
{
        for (size_t i = 0; i < ARRAY_LEN(keys); i++)
                if (!keys[i].is_number)
                        free(*(char **)((char *)t + keys[i].offset));
        *t = (struct e2b_toml){0};
}
