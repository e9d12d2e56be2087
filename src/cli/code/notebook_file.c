#include "cli/code/notebook_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

#define CELL_DEPTH 3u /* of a cell's members: the root's, the list's, the cell's */

/* ---- reading ---- */

static int not_json(struct str text, size_t at, struct err *err)
{
        size_t line = 1;

        for (size_t i = 0; i < at && i < text.n; i++)
                line += text.p[i] == '\n';
        return err_set(err, ERR_INVALID, str_is_utf8(text) ? "not valid JSON (line %zu)" : "not valid UTF-8 text",
                       line);
}

static int check_version(struct str root, struct err *err)
{
        struct str version = json_text_get(root, "nbformat"), cells = json_text_get(root, "cells");
        int64_t major;

        if (json_text_integer(version, &major) < 0)
                return err_set(err, ERR_INVALID, "not a notebook: there is no 'nbformat'");
        if (major < 4)
                return err_set(err, ERR_INVALID,
                               "nbformat %lld is too old: convert it with `jupyter nbconvert --to notebook`",
                               (long long)major);
        if (major > 4)
                return err_set(err, ERR_INVALID, "nbformat %lld is not known: only 4 is", (long long)major);
        if (json_text_kind(cells) != JSON_TEXT_ARRAY)
                return err_set(err, ERR_INVALID, "not a notebook: 'cells' is no list");
        return 0;
}

/* A string, or a list of strings: its lines. */
static int read_lines(struct str value, struct buf *out)
{
        struct json_walk w = json_text_walk(value);
        struct str line;
        int r = 0;

        if (json_text_kind(value) == JSON_TEXT_STRING)
                return json_text_unquote(value, out);
        if (json_text_kind(value) != JSON_TEXT_ARRAY)
                return -EINVAL;
        while (r == 0 && json_text_next(&w, NULL, &line))
                r = json_text_unquote(line, out);
        return r;
}

static bool is_blank(struct str text)
{
        for (size_t i = 0; i < text.n; i++)
                if (!memchr(" \t\r\n\f\v", text.p[i], 6))
                        return false;
        return true;
}

static bool has_tag(struct str cell, const char *tag)
{
        struct json_walk w = json_text_walk(json_text_get(json_text_get(cell, "metadata"), "tags"));
        struct str one;

        while (!w.is_object && json_text_next(&w, NULL, &one))
                if (json_text_is(one, tag))
                        return true;
        return false;
}

/* Cells that Jupyter passes over are passed over here, too. */
static int read_cell(struct notebook *n, struct str json, size_t number, struct err *err)
{
        struct notebook_cell *c = &n->cells[n->cell_count];
        struct str type = json_text_get(json, "cell_type");
        int r;

        if (json_text_kind(json) != JSON_TEXT_OBJECT || json_text_kind(type) != JSON_TEXT_STRING)
                return err_set(err, ERR_INVALID, "item %zu of 'cells' is no cell", number);
        if (!json_text_is(type, "code"))
                return 0;
        *c = (struct notebook_cell){.json = json, .source = BUF_INIT(NOTEBOOK_MAX), .outputs = BUF_INIT(SIZE_MAX / 2)};
        r = read_lines(json_text_get(json, "source"), &c->source);
        if (r == 0 && !is_blank(buf_text(&c->source)) && !has_tag(json, "skip-execution")) {
                c->may_fail = has_tag(json, "raises-exception");
                n->cell_count++;
                return 0;
        }
        buf_done(&c->source);
        if (r == -EINVAL)
                return err_set(err, ERR_INVALID, "item %zu of 'cells' has no source", number);
        return r < 0 ? err_sys(err, r, "read the notebook") : 0;
}

static int read_cells(struct notebook *n, struct str list, struct err *err)
{
        struct json_walk w = json_text_walk(list);
        struct str json;
        size_t count = 0;
        int r = 0;

        while (json_text_next(&w, NULL, &json))
                count++;
        n->cells = calloc(count ? count : 1, sizeof(*n->cells));
        if (!n->cells)
                return err_set(err, ERR_LIMIT, "out of memory");
        w = json_text_walk(list);
        for (size_t i = 1; r == 0 && json_text_next(&w, NULL, &json); i++)
                r = read_cell(n, json, i, err);
        return r;
}

static int read_language(struct notebook *n, struct err *err)
{
        struct str metadata = json_text_get(n->root, "metadata"), kernel = json_text_get(metadata, "kernelspec");
        const struct str places[] = {json_text_get(kernel, "language"),
                                     json_text_get(json_text_get(metadata, "language_info"), "name"),
                                     json_text_get(kernel, "name")};

        for (size_t i = 0; i < ARRAY_LEN(places); i++) {
                AUTO_BUF struct buf name = BUF_INIT(256);
                int r = json_text_unquote(places[i], &name);

                if (r != -ENOMEM && (r < 0 || !name.len || str_has_nul(buf_text(&name))))
                        continue;
                n->language = r == 0 ? str_dup(buf_text(&name)) : NULL;
                return n->language ? 0 : err_set(err, ERR_LIMIT, "out of memory");
        }
        return 0;
}

/* As the file is written: its indentation, taken from the first key. */
static void read_style(struct notebook *n)
{
        const char *p = n->root.p, *end = n->root.p + n->root.n, *line = NULL, *colon;
        size_t width;

        for (p++; p < end && memchr(" \t\r\n", *p, 4); p++)
                if (*p == '\n')
                        line = p + 1;
        colon = memchr(p, ':', (size_t)(end - p));
        n->style.has_spaces = colon && colon + 1 < end && colon[1] == ' ';
        width = line ? (size_t)(p - line) : 0;
        if (!line)
                return;
        if (width >= sizeof(n->indent) || memchr(line, '\r', width))
                width = 0;
        memcpy(n->indent, line, width);
        n->style.indent = n->indent;
}

int notebook_parse(struct str text, struct notebook *ret, struct err *err)
{
        struct notebook n = {.text = text};
        size_t bad = 0;
        int r = json_text_check(text, &n.root, &bad);

        if (r < 0)
                return not_json(text, bad, err);
        if (json_text_kind(n.root) != JSON_TEXT_OBJECT)
                return err_set(err, ERR_INVALID, "not a notebook: no JSON object");
        r = check_version(n.root, err);
        if (r == 0)
                r = read_cells(&n, json_text_get(n.root, "cells"), err);
        if (r == 0)
                r = read_language(&n, err);
        if (r < 0) {
                notebook_done(&n);
                return r;
        }
        read_style(&n);
        *ret = n;
        if (n.style.indent)
                ret->style.indent = ret->indent;
        return 0;
}

void notebook_done(struct notebook *n)
{
        for (size_t i = 0; i < n->cell_count; i++) {
                buf_done(&n->cells[i].source);
                buf_done(&n->cells[i].outputs);
        }
        free(n->cells);
        free(n->language);
        *n = (struct notebook){0};
}

/* ---- writing ---- */

struct edit { /* of the bytes from `from` to `to`, both in the notebook's text; the same: an insertion */
        const char *from, *to;
        struct buf text;
};

static int set_value(const struct notebook *n, struct str cell, const char *key, struct str value, struct edit *ret)
{
        struct str old = json_text_get(cell, key), name, last = {NULL, 0};
        struct json_walk w = json_text_walk(cell);
        int r;

        ret->text = BUF_INIT(SIZE_MAX / 2);
        if (old.n) {
                ret->from = old.p;
                ret->to = old.p + old.n;
                return buf_add(&ret->text, value.p, value.n);
        }
        while (json_text_next(&w, &name, &last))
                ;
        ret->from = ret->to = last.p + last.n; /* a cell has at least its type */
        r = buf_addc(&ret->text, !n->style.indent && n->style.has_spaces ? ", " : ",");
        if (r == 0)
                r = json_text_newline(&n->style, CELL_DEPTH, &ret->text);
        if (r == 0)
                r = buf_addf(&ret->text, "\"%s\":%s", key, n->style.has_spaces ? " " : "");
        return r < 0 ? r : buf_add(&ret->text, value.p, value.n);
}

/* Up to here as it is, then the edit. */
static int apply(const struct edit *e, const char **at, struct buf *out)
{
        int r = buf_add(out, *at, (size_t)(e->from - *at));

        *at = e->to;
        return r < 0 ? r : buf_add(out, buf_text(&e->text).p, e->text.len);
}

static int write_cell(const struct notebook *n, const struct notebook_cell *c, const char **at, struct buf *out)
{
        AUTO_BUF struct buf count = BUF_INIT(32);
        struct edit outputs = {0}, number = {0};
        int r = c->count ? buf_addf(&count, "%lld", (long long)c->count) : buf_addc(&count, "null");

        if (r == 0)
                r = set_value(n, c->json, "execution_count", buf_text(&count), &number);
        if (r == 0)
                r = set_value(n, c->json, "outputs", buf_text(&c->outputs), &outputs);
        if (r == 0)
                r = apply(outputs.from < number.from ? &outputs : &number, at, out);
        if (r == 0)
                r = apply(outputs.from < number.from ? &number : &outputs, at, out);
        buf_done(&outputs.text);
        buf_done(&number.text);
        return r;
}

int notebook_write(const struct notebook *n, struct buf *out)
{
        const char *at = n->text.p, *end = n->text.p + n->text.n;
        int r = 0;

        for (size_t i = 0; r == 0 && i < n->cell_count; i++)
                if (n->cells[i].is_run)
                        r = write_cell(n, &n->cells[i], &at, out);
        if (r == 0)
                r = buf_add(out, at, (size_t)(end - at));
        if (r == 0 && end[-1] != '\n')
                r = buf_addc(out, "\n");
        return r;
}
