/* Writing JSON in the style of a document. */
#include <errno.h>
#include <stdlib.h>

#include "wire/json/json_text.h"

int json_text_quote(struct str text, struct buf *out)
{
        static const char special[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
        size_t from = 0;
        int r = buf_add(out, "\"", 1);

        for (size_t i = 0; r == 0 && i < text.n; i++) {
                unsigned char c = (unsigned char)text.p[i];
                const char *found;

                if (c >= 0x20 && c != '"' && c != '\\')
                        continue;
                found = c ? strchr(special, c) : NULL;
                r = buf_add(out, text.p + from, i - from);
                if (r == 0)
                        r = found ? buf_addf(out, "\\%c", letters[found - special]) : buf_addf(out, "\\u%04x", c);
                from = i + 1;
        }
        if (r == 0)
                r = buf_add(out, text.p + from, text.n - from);
        return r < 0 ? r : buf_add(out, "\"", 1);
}

int json_text_newline(const struct json_style *style, unsigned depth, struct buf *out)
{
        int r = style->indent ? buf_add(out, "\n", 1) : 0;

        for (unsigned i = 0; r == 0 && style->indent && i < depth; i++)
                r = buf_addc(out, style->indent);
        return r;
}

struct member {
        struct str key, value; /* the key: the text that it stands for */
};

struct members {
        struct member *items; /* owned */
        size_t count;
        struct buf keys; /* the texts */
};

static int by_key(const void *a, const void *b)
{
        const struct member *x = a, *y = b;
        size_t n = x->key.n < y->key.n ? x->key.n : y->key.n;
        int order = n ? memcmp(x->key.p, y->key.p, n) : 0;

        return order ? order : (x->key.n > y->key.n) - (x->key.n < y->key.n);
}

static void members_done(struct members *m)
{
        free(m->items);
        buf_done(&m->keys);
}

static int members_sorted(struct str value, struct members *m)
{
        struct json_walk w = json_text_walk(value);
        struct str key, item;
        size_t count = 0, at = 0;

        while (json_text_next(&w, &key, &item))
                count++;
        m->items = calloc(count ? count : 1, sizeof(*m->items));
        if (!m->items)
                return -ENOMEM;
        buf_init(&m->keys, value.n * 3);
        w = json_text_walk(value);
        while (m->count < count && json_text_next(&w, &key, &item)) {
                size_t before = m->keys.len;
                int r = w.is_object ? json_text_unquote(key, &m->keys) : 0;

                if (r < 0)
                        return r;
                m->items[m->count++] = (struct member){{NULL, m->keys.len - before}, item};
        }
        for (size_t i = 0; i < m->count; i++) { /* now that the texts do not move any more */
                m->items[i].key.p = buf_text(&m->keys).p + at;
                at += m->items[i].key.n;
        }
        if (w.is_object)
                qsort(m->items, m->count, sizeof(*m->items), by_key);
        return 0;
}

static int format_scalar(struct str value, struct buf *out)
{
        AUTO_BUF struct buf text = BUF_INIT(value.n * 3 + 1);
        int r;

        if (json_text_kind(value) != JSON_TEXT_STRING)
                return buf_add(out, value.p, value.n);
        r = json_text_unquote(value, &text);
        return r < 0 ? r : json_text_quote(buf_text(&text), out);
}

static int format_members(const struct members *m, bool is_object, const struct json_style *style, unsigned depth,
                          struct buf *out)
{
        int r = buf_addc(out, is_object ? "{" : "[");

        for (size_t i = 0; r == 0 && i < m->count; i++) {
                if (i)
                        r = buf_addc(out, !style->indent && style->has_spaces ? ", " : ",");
                if (r == 0)
                        r = json_text_newline(style, depth + 1, out);
                if (r == 0 && is_object)
                        r = json_text_quote(m->items[i].key, out);
                if (r == 0 && is_object)
                        r = buf_addc(out, style->has_spaces ? ": " : ":");
                if (r == 0)
                        r = json_text_format(m->items[i].value, style, depth + 1, out);
        }
        if (r == 0 && m->count)
                r = json_text_newline(style, depth, out);
        return r < 0 ? r : buf_addc(out, is_object ? "}" : "]");
}

int json_text_format(struct str value, const struct json_style *style, unsigned depth, struct buf *out)
{
        enum json_text_kind kind = json_text_kind(value);
        AUTO(members_done) struct members m = {0};
        int r;

        if (kind != JSON_TEXT_OBJECT && kind != JSON_TEXT_ARRAY)
                return format_scalar(value, out);
        r = members_sorted(value, &m);
        return r < 0 ? r : format_members(&m, kind == JSON_TEXT_OBJECT, style, depth, out);
}
