#include "mcp/tools/search/glob.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"

/* ---- braces ---- */

static size_t char_len(const char *p) /* of "\x" and "x" */
{
        return p[0] == '\\' && p[1] ? 2 : 1;
}

/* The end of "[...]", behind the bracket; p + 1 where no bracket closes it. */
static const char *class_end(const char *p)
{
        const char *at = p + 1;

        if (*at == '!' || *at == '^')
                at++;
        if (*at == ']')
                at++;
        while (*at && *at != ']')
                at += char_len(at);
        return *at ? at + 1 : p + 1;
}

static const char *next_of(const char *p)
{
        return *p == '[' ? class_end(p) : p + char_len(p);
}

/* The comma or brace that ends a text within braces; NULL: none does. */
static const char *text_end(const char *p)
{
        unsigned depth = 0;

        for (; *p; p = next_of(p)) {
                if (depth == 0 && (*p == ',' || *p == '}'))
                        return p;
                depth += *p == '{';
                depth -= *p == '}';
        }
        return NULL;
}

static int add_text(struct glob *g, const char *text, struct err *err)
{
        if (g->count == GLOB_TEXTS_MAX)
                return err_set(err, ERR_INVALID, "the pattern's braces stand for more than %u texts", GLOB_TEXTS_MAX);
        g->texts[g->count] = strdup(text);
        return g->texts[g->count++] ? 0 : err_sys(err, -ENOMEM, "the pattern");
}

/* Each text of the first braces in place of them, and so on with what that gives. */
static int expand(struct glob *g, const char *pattern, struct err *err)
{
        const char *brace = pattern, *at, *end, *rest;
        int r = 0;

        while (*brace && *brace != '{')
                brace = next_of(brace);
        if (!*brace)
                return add_text(g, pattern, err);
        for (rest = brace + 1; (end = text_end(rest)) && *end == ','; rest = end + 1)
                continue;
        if (!end)
                return err_set(err, ERR_INVALID, "the pattern has a brace that is not closed");
        rest = end + 1;
        for (at = brace + 1; r == 0; at = end + 1) {
                char text[GLOB_BYTES_MAX + 1];
                size_t before = (size_t)(brace - pattern), n, after = strlen(rest);

                end = text_end(at);
                n = (size_t)(end - at);
                memcpy(text, pattern, before); /* never longer than the pattern */
                memcpy(text + before, at, n);
                memcpy(text + before + n, rest, after + 1);
                r = expand(g, text, err);
                if (*end == '}')
                        break;
        }
        return r;
}

int glob_init(struct glob *g, const char *pattern, struct err *err)
{
        *g = (struct glob){.is_inverted = pattern[0] == '!'};
        pattern += g->is_inverted;
        if (strlen(pattern) > GLOB_BYTES_MAX)
                return err_set(err, ERR_INVALID, "the pattern is longer than %u bytes", GLOB_BYTES_MAX);
        g->is_for_names = !strchr(pattern, '/');
        while (strncmp(pattern, "./", 2) == 0)
                pattern += 2;
        return expand(g, pattern[0] == '/' ? pattern + 1 : pattern, err);
}

void glob_done(struct glob *g)
{
        for (size_t i = 0; i < g->count; i++)
                free(g->texts[i]);
        g->count = 0;
}

/* ---- matching ---- */

static bool class_has(const char *p, const char *end, unsigned char c)
{
        bool is_not = p[1] == '!' || p[1] == '^', is_in = false;
        const char *at = p + 1 + is_not;

        for (bool is_first = true; at < end - 1; is_first = false) {
                unsigned char low, high;

                if (*at == ']' && !is_first)
                        break;
                low = high = (unsigned char)at[char_len(at) - 1];
                at += char_len(at);
                if (at[0] == '-' && at + 1 < end - 1) {
                        high = (unsigned char)at[char_len(at + 1)];
                        at += 1 + char_len(at + 1);
                }
                is_in = is_in || (c >= low && c <= high);
        }
        return is_in != is_not;
}

/* One character of UTF-8, or a byte that is none. */
static size_t step(struct str s)
{
        size_t n = 1;

        while (n < s.n && ((unsigned char)s.p[n] & 0xc0) == 0x80 && n < 4)
                n++;
        return n;
}

/* What the pattern's first element takes of s; 0: it does not fit.  Not for "*". */
static size_t takes(const char *p, const char **ret_next, struct str s)
{
        const char *end = *p == '[' ? class_end(p) : NULL;

        *ret_next = next_of(p);
        if (!s.n)
                return 0;
        if (*p == '?')
                return step(s);
        if (end && end > p + 1)
                return class_has(p, end, (unsigned char)s.p[0]) ? step(s) : 0;
        return s.p[0] == p[char_len(p) - 1];
}

/* A part of a path.  After a mismatch the last "*" takes one more character. */
static bool part_matches(const char *p, const char *p_end, struct str s)
{
        const char *star = NULL, *next;
        struct str star_s = s;

        while (s.n || p < p_end) {
                size_t n;

                if (p < p_end && *p == '*') {
                        star = ++p;
                        star_s = s;
                        continue;
                }
                n = p < p_end ? takes(p, &next, s) : 0;
                if (n) {
                        p = next;
                } else if (star && star_s.n) {
                        n = step(star_s);
                        star_s = (struct str){star_s.p + n, star_s.n - n};
                        p = star;
                        s = star_s;
                        continue;
                } else {
                        return false;
                }
                s = (struct str){s.p + n, s.n - n};
        }
        return true;
}

static const char *part_end(const char *p)
{
        while (*p && *p != '/')
                p = next_of(p);
        return p;
}

/* The same with parts, and "**" for "*". */
static bool text_matches(const char *p, struct str path)
{
        const char *star = NULL;
        struct str star_path = path, part;

        for (;;) {
                const char *end = part_end(p);
                struct str rest = path;

                if (end - p == 2 && p[0] == '*' && p[1] == '*') {
                        if (!*end)
                                return path.n > 0;
                        star = p = end + 1;
                        star_path = path;
                        continue;
                }
                if (!*p && !path.n)
                        return true;
                if (path.n && *p && (str_cut(&rest, '/', &part), part_matches(p, end, part))) {
                        p = *end ? end + 1 : end;
                        path = rest;
                } else if (star && star_path.n) {
                        (void)str_cut(&star_path, '/', &part);
                        p = star;
                        path = star_path;
                } else {
                        return false;
                }
        }
}

bool glob_matches(const struct glob *g, struct str path)
{
        bool is_match = false;

        if (str_starts(path, "./"))
                path = (struct str){path.p + 2, path.n - 2};
        if (g->is_for_names) {
                const char *slash = path.n ? memrchr(path.p, '/', path.n) : NULL;

                if (slash)
                        path = (struct str){slash + 1, path.n - (size_t)(slash + 1 - path.p)};
        }
        for (size_t i = 0; i < g->count && !is_match; i++)
                is_match = text_matches(g->texts[i], path);
        return is_match != g->is_inverted;
}
