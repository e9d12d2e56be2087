#include "dockerfile/path_pattern.h"

#include <stdlib.h>

#define STEPS_MAX 200000u /* of one comparison: patterns like *a*a*a*a* take very many */

struct match {
        bool has_double;
        unsigned steps;
};

/* One sign against the class at pattern.p[0] == '['.  *used: how long the class is; 0: it is not closed. */
static bool class_matches(struct str pattern, char c, size_t *used)
{
        size_t i = 1;
        bool is_not = i < pattern.n && (pattern.p[i] == '^' || pattern.p[i] == '!'), is_in = false;

        *used = 0;
        if (is_not)
                i++;
        for (bool is_first = true; i < pattern.n && (is_first || pattern.p[i] != ']'); is_first = false) {
                unsigned char low, high;

                if (pattern.p[i] == '\\' && i + 1 < pattern.n)
                        i++;
                low = high = (unsigned char)pattern.p[i++];
                if (i + 1 < pattern.n && pattern.p[i] == '-' && pattern.p[i + 1] != ']') {
                        i++;
                        if (pattern.p[i] == '\\' && i + 1 < pattern.n)
                                i++;
                        high = (unsigned char)pattern.p[i++];
                }
                if ((unsigned char)c >= low && (unsigned char)c <= high)
                        is_in = true;
        }
        if (i >= pattern.n)
                return false;
        *used = i + 1;
        return is_in != is_not && c != '/';
}

static struct str from(struct str s, size_t n)
{
        return (struct str){s.p + n, s.n - n};
}

static bool matches(struct match *m, struct str pattern, struct str path);

/* ** at the front of the pattern: any number of directories when a / follows, otherwise anything. */
static bool double_matches(struct match *m, struct str pattern, struct str path)
{
        bool whole = false;

        while (str_starts(pattern, "*"))
                pattern = from(pattern, 1);
        if (str_starts(pattern, "/")) {
                pattern = from(pattern, 1);
                whole = true;
        }
        if (pattern.n == 0)
                return true;
        for (size_t i = 0; i <= path.n; i++)
                if ((!whole || i == 0 || path.p[i - 1] == '/') && matches(m, pattern, from(path, i)))
                        return true;
        return false;
}

static bool star_matches(struct match *m, struct str pattern, struct str path)
{
        while (str_starts(pattern, "*"))
                pattern = from(pattern, 1);
        for (size_t i = 0; i <= path.n; i++) {
                if (matches(m, pattern, from(path, i)))
                        return true;
                if (i < path.n && path.p[i] == '/')
                        return false;
        }
        return false;
}

static bool matches(struct match *m, struct str pattern, struct str path)
{
        for (;;) {
                size_t used = 1;

                if (++m->steps > STEPS_MAX)
                        return false;
                if (pattern.n == 0)
                        return path.n == 0;
                if (pattern.p[0] == '*')
                        return m->has_double && str_starts(pattern, "**") ? double_matches(m, pattern, path)
                                                                          : star_matches(m, pattern, path);
                if (path.n == 0)
                        return false;
                if (pattern.p[0] == '[') {
                        if (!class_matches(pattern, path.p[0], &used))
                                return false;
                } else if (pattern.p[0] == '?') {
                        if (path.p[0] == '/')
                                return false;
                } else {
                        if (pattern.p[0] == '\\' && pattern.n > 1)
                                pattern = from(pattern, 1);
                        if (pattern.p[0] != path.p[0])
                                return false;
                }
                pattern = from(pattern, used);
                path = from(path, 1);
        }
}

bool path_pattern_matches(struct str pattern, struct str path, bool has_double)
{
        struct match m = {.has_double = has_double};

        return matches(&m, pattern, path);
}

bool path_pattern_is_valid(struct str pattern)
{
        for (size_t i = 0; i < pattern.n; i++) {
                size_t used;

                if (pattern.p[i] == '\\' && ++i == pattern.n)
                        return false;
                if (pattern.p[i] != '[' || (i && pattern.p[i - 1] == '\\'))
                        continue;
                (void)class_matches(from(pattern, i), 'a', &used);
                if (used == 0)
                        return false;
                i += used - 1;
        }
        return true;
}

bool path_pattern_has_wildcard(struct str pattern)
{
        for (size_t i = 0; i < pattern.n; i++) {
                if (pattern.p[i] == '\\')
                        i++;
                else if (pattern.p[i] == '*' || pattern.p[i] == '?' || pattern.p[i] == '[')
                        return true;
        }
        return false;
}

char *clean_path(struct str path, bool *ret_leaves)
{
        char *out = malloc(path.n + 2);
        size_t n = 0;
        struct str part;

        if (!out)
                return NULL;
        *ret_leaves = false;
        while (path.n) {
                (void)str_cut(&path, '/', &part);
                if (part.n == 0 || str_is(part, "."))
                        continue;
                if (str_is(part, "..") && n) {
                        while (n && out[n - 1] != '/')
                                n--;
                        n -= n ? 1 : 0;
                        continue;
                }
                if (str_is(part, "..")) {
                        *ret_leaves = true;
                        continue;
                }
                if (n)
                        out[n++] = '/';
                memcpy(out + n, part.p, part.n);
                n += part.n;
        }
        if (n == 0)
                out[n++] = '.';
        out[n] = 0;
        return out;
}
