#include "dockerfile/expand.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 16u /* of ${A:-${B:-...}} */

struct cursor { /* over one word, also over the words inside it */
        struct expand *x;
        struct str text;
        size_t at;
        unsigned depth;
};

static int fault(struct expand *x, const char *fmt, ...) PRINTF(2, 3);

static int fault(struct expand *x, const char *fmt, ...)
{
        va_list ap;

        va_start(ap, fmt);
        (void)vsnprintf(x->fault, sizeof(x->fault), fmt, ap);
        va_end(ap);
        return -EINVAL;
}

static bool is_end(const struct cursor *c)
{
        return c->at >= c->text.n;
}

static char peek(const struct cursor *c)
{
        return is_end(c) ? 0 : c->text.p[c->at];
}

static bool is_name_char(char ch, bool is_first)
{
        return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || ch == '_' ||
               (!is_first && ch >= '0' && ch <= '9');
}

static int until(struct cursor *c, char end, struct buf *out);

static int single_quoted(struct cursor *c, struct buf *out)
{
        size_t from = ++c->at;
        int r;

        while (!is_end(c) && peek(c) != '\'')
                c->at++;
        if (is_end(c))
                return fault(c->x, "a single quote is not closed");
        if (memchr(c->text.p + from, '$', c->at - from))
                c->x->has_dollar = true;
        r = buf_add(out, c->text.p + from, c->at - from);
        c->at++;
        return r;
}

/* ---- variables ---- */

/* $NAME, or one of the parameters that shells name by a single sign. */
static int take_name(struct cursor *c, char name[EXPAND_NAME_MAX])
{
        size_t from = c->at, n;

        while (!is_end(c) && is_name_char(peek(c), c->at == from))
                c->at++;
        if (c->at == from && !is_end(c) && (peek(c) >= '0' && peek(c) <= '9'))
                c->at++;
        n = c->at - from;
        if (n >= EXPAND_NAME_MAX)
                return fault(c->x, "a variable's name is too long");
        memcpy(name, c->text.p + from, n);
        name[n] = 0;
        return 0;
}

static int add_reference(const char *name, struct buf *out)
{
        return buf_addf(out, "${%s}", name);
}

/* A reference without a word in its place. */
static int add_value(struct expand *x, const char *name, struct buf *out)
{
        const char *value = NULL;
        enum expand_known known = x->look_up(x->arg, name, &value);

        if (known == EXPAND_SET) {
                if (strchr(value, '$'))
                        x->has_dollar = true;
                return buf_addc(out, value);
        }
        if (x->keeps_unknown) {
                x->has_kept = true;
                return add_reference(name, out);
        }
        if (!x->unknown[0])
                (void)snprintf(x->unknown, sizeof(x->unknown), "%s", name);
        return 0;
}

/* Passes over a word that is not needed, without its effects on the results. */
static int skip_word(struct cursor *c)
{
        AUTO_BUF struct buf nowhere = BUF_INIT(1u << 20);
        struct expand before = *c->x;
        int r = until(c, '}', &nowhere);

        if (r == 0)
                *c->x = before;
        return r;
}

/* After ${NAME: up to the closing brace. */
static int modified(struct cursor *c, const char *name, bool counts_empty, struct buf *out)
{
        const char *value = NULL;
        enum expand_known known = c->x->look_up(c->x->arg, name, &value);
        bool is_there = known == EXPAND_ELSEWHERE || (known == EXPAND_SET && !(counts_empty && !value[0]));
        AUTO_BUF struct buf words = BUF_INIT(4096);
        char sign = peek(c);
        int r;

        c->at++;
        switch (sign) {
        case '-':
                if (!is_there)
                        return until(c, '}', out);
                r = skip_word(c);
                return r < 0 ? r : add_value(c->x, name, out);
        case '+': return is_there ? until(c, '}', out) : skip_word(c);
        case '?':
                r = until(c, '}', &words);
                if (r == 0 && !is_there)
                        return fault(c->x, "variable '%.64s' is not set: %.*s", name, (int)words.len,
                                     words.len ? (const char *)buf_at(&words) : "");
                return r < 0 ? r : add_value(c->x, name, out);
        case 0: return fault(c->x, "a ${ is not closed");
        default:
                return fault(c->x, "${%.64s%s%c: this form of a variable is not supported", name,
                             counts_empty ? ":" : "", sign);
        }
}

static int braced(struct cursor *c, struct buf *out)
{
        char name[EXPAND_NAME_MAX];
        bool counts_empty;
        int r;

        c->at++; /* { */
        r = take_name(c, name);
        if (r < 0)
                return r;
        if (is_end(c))
                return fault(c->x, "a ${ is not closed");
        if (!name[0])
                return fault(c->x, "${ without a name");
        if (peek(c) == '}') {
                c->at++;
                return add_value(c->x, name, out);
        }
        counts_empty = peek(c) == ':';
        if (counts_empty)
                c->at++;
        if (c->depth >= DEPTH_MAX)
                return fault(c->x, "variables are nested too deeply");
        c->depth++;
        r = modified(c, name, counts_empty, out);
        c->depth--;
        return r;
}

static int dollar(struct cursor *c, struct buf *out)
{
        char name[EXPAND_NAME_MAX];
        int r;

        c->at++;
        if (peek(c) == '{')
                return braced(c, out);
        r = take_name(c, name);
        if (r < 0)
                return r;
        if (name[0])
                return add_value(c->x, name, out);
        c->x->has_dollar = true;
        return buf_addc(out, "$");
}

/* ---- words ---- */

static int literal(struct cursor *c, struct buf *out)
{
        char ch = peek(c);

        c->at++;
        if (ch == '$')
                c->x->has_dollar = true;
        return buf_add(out, &ch, 1);
}

/* Is here an escape, and after it one of `which` (NULL: anything) or another escape? */
static bool escapes_next(const struct cursor *c, const char *which)
{
        char next = c->at + 1 < c->text.n ? c->text.p[c->at + 1] : 0;

        if (peek(c) != c->x->escape || !next)
                return false;
        return !which || next == c->x->escape || strchr(which, next);
}

static int double_quoted(struct cursor *c, struct buf *out)
{
        int r = 0;

        c->at++;
        while (r == 0 && !is_end(c) && peek(c) != '"') {
                if (peek(c) == '$') {
                        r = dollar(c, out);
                        continue;
                }
                if (escapes_next(c, "\"$"))
                        c->at++;
                r = literal(c, out);
        }
        if (r == 0 && is_end(c))
                return fault(c->x, "a double quote is not closed");
        c->at++;
        return r;
}

/* Up to the sign `end` outside quotes, which is passed; 0: up to the end of the text. */
static int until(struct cursor *c, char end, struct buf *out)
{
        int r = 0;

        while (r == 0 && !is_end(c)) {
                char ch = peek(c);

                if (end && ch == end) {
                        c->at++;
                        return 0;
                }
                if (ch == '\'' && !c->x->is_document) {
                        r = single_quoted(c, out);
                } else if (ch == '"' && !c->x->is_document) {
                        r = double_quoted(c, out);
                } else if (ch == '$') {
                        r = dollar(c, out);
                } else {
                        if (escapes_next(c, c->x->is_document ? "$" : NULL))
                                c->at++;
                        r = literal(c, out);
                }
        }
        if (r == 0 && end)
                return fault(c->x, "a ${ is not closed");
        return r;
}

int expand_word(struct expand *x, struct str word, struct buf *out)
{
        struct cursor c = {.x = x, .text = word};

        return until(&c, 0, out);
}
