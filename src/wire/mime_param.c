#include "wire/mime_param.h"

#include <errno.h>

#include "wire/http1_chars.h"
#include "wire/url.h"

static void skip(struct str *s, size_t n)
{
        *s = (struct str){s->p + n, s->n - n};
}

static void skip_blanks(struct str *s)
{
        while (s->n && (s->p[0] == ' ' || s->p[0] == '\t'))
                skip(s, 1);
}

static int take_plain(struct str *rest, struct buf *value)
{
        size_t n = 0;

        while (n < rest->n && !memchr(" \t;\"", rest->p[n], 4))
                n++;
        if (n == 0 || (n < rest->n && rest->p[n] == '"'))
                return -EINVAL;
        skip(rest, n);
        return buf_add(value, rest->p - n, n);
}

/* Behind the opening quote.  A backslash quotes only '"' and itself: names with lone ones (C:\x) stay whole. */
static int take_quoted(struct str *rest, struct buf *value)
{
        int r;

        while (rest->n) {
                size_t n = 0;

                while (n < rest->n && rest->p[n] != '"' && rest->p[n] != '\\')
                        n++;
                r = buf_add(value, rest->p, n);
                if (r < 0)
                        return r;
                skip(rest, n);
                if (rest->n == 0)
                        break;
                if (rest->p[0] == '"') {
                        skip(rest, 1);
                        return 0;
                }
                if (rest->n > 1 && (rest->p[1] == '"' || rest->p[1] == '\\'))
                        skip(rest, 1);
                r = buf_add(value, rest->p, 1);
                if (r < 0)
                        return r;
                skip(rest, 1);
        }
        return -EINVAL; /* never closed */
}

int mime_param_next(struct str *rest, struct str *ret_name, struct buf *value)
{
        struct str name;
        size_t n = 0;
        int r;

        do { /* empty parameters, as in a closing semicolon, are passed over */
                skip_blanks(rest);
                if (rest->n == 0)
                        return 0;
                if (rest->p[0] != ';')
                        return -EINVAL;
                skip(rest, 1);
                skip_blanks(rest);
        } while (rest->n && rest->p[0] == ';');
        if (rest->n == 0)
                return 0;

        while (n < rest->n && http1_char_is(rest->p[n], HTTP1_CHAR_TOKEN))
                n++;
        if (n == 0 || n == rest->n || rest->p[n] != '=')
                return -EINVAL;
        name = (struct str){rest->p, n};
        skip(rest, n + 1);
        buf_reset(value);
        if (rest->n && rest->p[0] == '"') {
                skip(rest, 1);
                r = take_quoted(rest, value);
        } else {
                r = take_plain(rest, value);
        }
        if (r < 0)
                return r;
        *ret_name = name;
        return 1;
}

int mime_param_decode_ext(struct buf *value)
{
        struct str all = {(const char *)buf_at(value), value->len}, charset, language;
        AUTO_BUF struct buf plain = BUF_INIT(value->max);
        int r;

        if (!str_cut(&all, '\'', &charset) || !str_cut(&all, '\'', &language))
                return -EINVAL;
        if (!str_iis(charset, "UTF-8") && !str_iis(charset, "US-ASCII"))
                return 0;
        r = url_decode(all, false, &plain);
        if (r < 0)
                return r;
        buf_reset(value);
        r = buf_add(value, buf_at(&plain), plain.len);
        return r < 0 ? r : 1;
}
