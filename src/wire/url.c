#include "wire/url.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int check_target(struct str s) /* visible ASCII without '#' */
{
        for (size_t i = 0; i < s.n; i++) {
                uint8_t c = (uint8_t)s.p[i];

                if (c <= ' ' || c >= 0x7f || c == '#')
                        return -EINVAL;
        }
        return 0;
}

static int drop_origin(struct str *s) /* "http://host/a" becomes "/a", "http://host?b" becomes "?b" */
{
        size_t scheme = 0, n = 0;

        if (s->n >= 7 && str_ieq((struct str){s->p, 7}, STR("http://")))
                scheme = 7;
        else if (s->n >= 8 && str_ieq((struct str){s->p, 8}, STR("https://")))
                scheme = 8;
        else
                return -EINVAL;
        *s = (struct str){s->p + scheme, s->n - scheme};
        while (n < s->n && s->p[n] != '/' && s->p[n] != '?')
                n++;
        if (n == 0)
                return -EINVAL;
        *s = (struct str){s->p + n, s->n - n};
        return 0;
}

static int split_path(struct url *u)
{
        struct str rest = {u->path.p + 1, u->path.n - 1}, segment;
        bool has_more = rest.n > 0;

        while (has_more) {
                has_more = str_cut(&rest, '/', &segment);
                if (u->segment_count == URL_SEGMENTS_MAX)
                        return -E2BIG;
                u->segments[u->segment_count++] = segment;
        }
        return 0;
}

int url_parse(struct str target, struct url *ret)
{
        struct url u = {0};
        int r;

        r = check_target(target);
        if (r < 0)
                return r;
        if (target.n == 0)
                return -EINVAL;
        if (target.p[0] != '/') {
                r = drop_origin(&target);
                if (r < 0)
                        return r;
        }
        (void)str_cut(&target, '?', &u.path);
        u.query = target;
        if (u.path.n == 0)
                u.path = STR("/");
        r = split_path(&u);
        if (r < 0)
                return r;
        *ret = u;
        return 0;
}

/* Next decoded byte of *s, which is cut by what was read; -EINVAL for a broken escape.  s is not empty. */
static int next_byte(struct str *s, bool plus_is_space)
{
        size_t used = 1;
        int byte = (uint8_t)s->p[0];

        if (byte == '%') {
                int high = s->n > 2 ? hex_value(s->p[1]) : -1, low = s->n > 2 ? hex_value(s->p[2]) : -1;

                if (high < 0 || low < 0)
                        return -EINVAL;
                byte = high << 4 | low;
                used = 3;
        } else if (byte == '+' && plus_is_space) {
                byte = ' ';
        }
        *s = (struct str){s->p + used, s->n - used};
        return byte;
}

static ssize_t decode_to(struct str s, bool plus_is_space, char *out) /* at most s.n bytes; their number, or -EINVAL */
{
        ssize_t n = 0;

        while (s.n) {
                int byte = next_byte(&s, plus_is_space);

                if (byte < 0)
                        return byte;
                out[n++] = (char)byte;
        }
        return n;
}

static ssize_t decoded_len(struct str s)
{
        ssize_t n = 0;

        for (; s.n; n++) {
                int byte = next_byte(&s, false);

                if (byte < 0)
                        return byte;
        }
        return n;
}

int url_decode(struct str s, bool plus_is_space, struct buf *out)
{
        ssize_t n = decoded_len(s); /* first, so that a buf with little room left takes what fits decoded */
        uint8_t *at;
        int r;

        if (n <= 0)
                return (int)n;
        r = buf_reserve(out, (size_t)n, &at);
        if (r < 0)
                return r;
        buf_commit(out, (size_t)decode_to(s, plus_is_space, (char *)at));
        return 0;
}

int url_decode_dup(struct str s, bool plus_is_space, char **ret)
{
        AUTO_FREE char *text = malloc(s.n + 1);
        ssize_t n;

        if (!text)
                return -ENOMEM;
        n = decode_to(s, plus_is_space, text);
        if (n < 0)
                return (int)n;
        text[n] = 0;
        if (strlen(text) != (size_t)n)
                return -EINVAL;
        *ret = TAKE_PTR(text);
        return 0;
}

static bool decodes_to(struct str s, const char *want)
{
        while (s.n) {
                int byte = next_byte(&s, true);

                if (byte < 0 || *want == 0 || byte != (uint8_t)*want++)
                        return false;
        }
        return *want == 0;
}

int url_query_get(struct str query, const char *name, char **ret)
{
        bool has_more = query.n > 0;
        struct str pair, key;

        while (has_more) {
                has_more = str_cut(&query, '&', &pair);
                (void)str_cut(&pair, '=', &key);
                if (decodes_to(key, name))
                        return url_decode_dup(pair, true, ret);
        }
        *ret = NULL;
        return 0;
}

static bool is_unreserved(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
               c == '_' || c == '~';
}

int url_encode(struct str s, struct buf *out)
{
        static const char digits[] = "0123456789ABCDEF";
        size_t n = s.n;
        uint8_t *at;
        int r;

        for (size_t i = 0; i < s.n; i++)
                n += is_unreserved(s.p[i]) ? 0 : 2;
        if (n == 0)
                return 0;
        r = buf_reserve(out, n, &at);
        if (r < 0)
                return r;
        for (size_t i = 0; i < s.n; i++) {
                uint8_t c = (uint8_t)s.p[i];

                if (is_unreserved(s.p[i])) {
                        *at++ = c;
                        continue;
                }
                *at++ = '%';
                *at++ = (uint8_t)digits[c >> 4];
                *at++ = (uint8_t)digits[c & 15];
        }
        buf_commit(out, n);
        return 0;
}
