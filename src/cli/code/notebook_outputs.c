#include "cli/code/notebook_outputs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

#define OUTPUT_DEPTH 4u /* of an output in its list; its members are one deeper */

void notebook_outputs_init(struct notebook_outputs *o, const struct json_style *style)
{
        *o = (struct notebook_outputs){.style = *style,
                                       .text = BUF_INIT(NOTEBOOK_OUTPUTS_MAX),
                                       .stream = BUF_INIT(NOTEBOOK_OUTPUTS_MAX),
                                       .failure = BUF_INIT(RUN_LINE_MAX + 16),
                                       .traceback = BUF_INIT(RUN_LINE_MAX + 16)};
}

void notebook_outputs_done(struct notebook_outputs *o)
{
        buf_done(&o->text);
        buf_done(&o->stream);
        buf_done(&o->failure);
        buf_done(&o->traceback);
}

/* ---- text in lines ---- */

/* Where the line that begins at `at` ends, behind its end, as Python's splitlines() has it. */
static size_t line_end(struct str s, size_t at)
{
        for (; at < s.n; at++) {
                unsigned char c = (unsigned char)s.p[at], second = at + 1 < s.n ? (unsigned char)s.p[at + 1] : 0,
                              third = at + 2 < s.n ? (unsigned char)s.p[at + 2] : 0;

                if (c == '\r' && second == '\n')
                        return at + 2;
                if ((c >= '\n' && c <= '\r') || (c >= 0x1c && c <= 0x1e))
                        return at + 1;
                if (c == 0xc2 && second == 0x85)
                        return at + 2;
                if (c == 0xe2 && second == 0x80 && (third == 0xa8 || third == 0xa9))
                        return at + 3;
        }
        return s.n;
}

static int add_separator(struct notebook_outputs *o, bool is_first, unsigned depth)
{
        int r = is_first ? 0 : buf_addc(&o->text, !o->style.indent && o->style.has_spaces ? ", " : ",");

        return r < 0 ? r : json_text_newline(&o->style, depth, &o->text);
}

/* ["one\n", "two"] */
static int add_lines(struct notebook_outputs *o, struct str text, unsigned depth)
{
        int r = buf_addc(&o->text, "[");

        for (size_t at = 0, end; r == 0 && at < text.n; at = end) {
                end = line_end(text, at);
                r = add_separator(o, at == 0, depth + 1);
                if (r == 0)
                        r = json_text_quote((struct str){text.p + at, end - at}, &o->text);
        }
        if (r == 0 && text.n)
                r = json_text_newline(&o->style, depth, &o->text);
        return r < 0 ? r : buf_addc(&o->text, "]");
}

/* Without the line ends: what a traceback is made of. */
static int add_split_lines(struct notebook_outputs *o, struct str text, unsigned depth)
{
        struct str line;
        bool is_first = true, goes_on = text.n > 0;
        int r = buf_addc(&o->text, "[");

        while (r == 0 && goes_on) {
                goes_on = str_cut(&text, '\n', &line);
                if (!goes_on && !line.n) /* behind the last line end */
                        break;
                r = add_separator(o, is_first, depth + 1);
                if (r == 0)
                        r = json_text_quote(line, &o->text);
                is_first = false;
        }
        if (r == 0 && !is_first)
                r = json_text_newline(&o->style, depth, &o->text);
        return r < 0 ? r : buf_addc(&o->text, "]");
}

/* ---- members of an output ---- */

static int begin_output(struct notebook_outputs *o)
{
        int r = o->count ? 0 : buf_addc(&o->text, "[");

        if (r == 0)
                r = add_separator(o, o->count == 0, OUTPUT_DEPTH);
        o->count++;
        return r < 0 ? r : buf_addc(&o->text, "{");
}

static int add_key(struct notebook_outputs *o, bool is_first, unsigned depth, struct str key)
{
        int r = add_separator(o, is_first, depth);

        if (r == 0)
                r = json_text_quote(key, &o->text);
        return r < 0 ? r : buf_addc(&o->text, o->style.has_spaces ? ": " : ":");
}

static int add_text(struct notebook_outputs *o, bool is_first, const char *key, struct str text)
{
        int r = add_key(o, is_first, OUTPUT_DEPTH + 1, str_of(key));

        return r < 0 ? r : json_text_quote(text, &o->text);
}

static int end_output(struct notebook_outputs *o)
{
        int r = json_text_newline(&o->style, OUTPUT_DEPTH, &o->text);

        return r < 0 ? r : buf_addc(&o->text, "}");
}

/* ---- streams ---- */

static int flush_stream(struct notebook_outputs *o)
{
        int r;

        if (!o->stream.len)
                return 0;
        r = begin_output(o);
        if (r == 0)
                r = add_text(o, true, "name", str_of(o->is_stderr ? "stderr" : "stdout"));
        if (r == 0)
                r = add_text(o, false, "output_type", STR("stream"));
        if (r == 0)
                r = add_key(o, false, OUTPUT_DEPTH + 1, STR("text"));
        if (r == 0)
                r = add_lines(o, buf_text(&o->stream), OUTPUT_DEPTH + 1);
        if (r == 0)
                r = end_output(o);
        buf_reset(&o->stream);
        return r;
}

/* ---- results ---- */

struct bundle_item {
        struct str mime, value; /* the MIME type as text, the value as JSON */
};

static int by_mime(const void *a, const void *b)
{
        const struct bundle_item *x = a, *y = b;
        size_t n = x->mime.n < y->mime.n ? x->mime.n : y->mime.n;
        int order = n ? memcmp(x->mime.p, y->mime.p, n) : 0;

        return order ? order : (x->mime.n > y->mime.n) - (x->mime.n < y->mime.n);
}

static bool is_json_mime(struct str mime)
{
        return str_is(mime, "application/json") || (str_starts(mime, "application/") && str_ends(mime, "+json"));
}

static bool is_line_mime(struct str mime)
{
        return str_starts(mime, "text/") || str_is(mime, "application/javascript") || str_is(mime, "image/svg+xml");
}

/* Any JSON where the format allows any, else text: an object of another type is kept as its JSON text. */
static int add_bundle_value(struct notebook_outputs *o, const struct bundle_item *item)
{
        static const struct json_style compact = {.has_spaces = true};
        AUTO_BUF struct buf text = BUF_INIT(NOTEBOOK_OUTPUTS_MAX);
        const unsigned depth = OUTPUT_DEPTH + 2;
        int r;

        if (is_json_mime(item->mime))
                return json_text_format(item->value, &o->style, depth, &o->text);
        if (json_text_kind(item->value) == JSON_TEXT_STRING)
                r = json_text_unquote(item->value, &text);
        else
                r = json_text_format(item->value, &compact, 0, &text);
        if (r < 0)
                return r;
        return is_line_mime(item->mime) ? add_lines(o, buf_text(&text), depth)
                                        : json_text_quote(buf_text(&text), &o->text);
}

static int add_bundle(struct notebook_outputs *o, const struct bundle_item *items, size_t count)
{
        int r = buf_addc(&o->text, "{");

        for (size_t i = 0; r == 0 && i < count; i++) {
                r = add_key(o, i == 0, OUTPUT_DEPTH + 2, items[i].mime);
                if (r == 0)
                        r = add_bundle_value(o, &items[i]);
        }
        if (r == 0 && count)
                r = json_text_newline(&o->style, OUTPUT_DEPTH + 1, &o->text);
        return r < 0 ? r : buf_addc(&o->text, "}");
}

/* All MIME types of a result, sorted.  `names` keeps those of `extra`.  *ret is the caller's. */
static int collect_bundle(const struct run_event *e, struct buf *names, struct bundle_item **ret, size_t *ret_count)
{
        struct json_walk w = json_text_walk(e->extra);
        struct bundle_item *items;
        struct str key, value;
        size_t count = RUN_FIELD_COUNT, n = 0, extra_from, at = 0;
        int r = 0;

        while (json_text_next(&w, &key, &value))
                count++;
        items = calloc(count, sizeof(*items));
        if (!items)
                return -ENOMEM;
        for (size_t i = 0; i < RUN_FIELD_COUNT; i++)
                if (e->fields[i].n)
                        items[n++] = (struct bundle_item){str_of(run_field_mime((enum run_field)i)), e->fields[i]};
        extra_from = n;
        w = json_text_walk(e->extra);
        while (r == 0 && n < count && json_text_next(&w, &key, &value)) {
                size_t before = names->len;

                r = json_text_unquote(key, names);
                items[n++] = (struct bundle_item){{NULL, names->len - before}, value};
        }
        for (size_t i = extra_from; i < n; at += items[i++].mime.n)
                items[i].mime.p = buf_text(names).p + at;
        qsort(items, n, sizeof(*items), by_mime);
        *ret = items;
        *ret_count = n;
        return r;
}

static int take_result(struct notebook_outputs *o, const struct run_event *e)
{
        AUTO_FREE struct bundle_item *items = NULL;
        AUTO_BUF struct buf names = BUF_INIT(RUN_LINE_MAX);
        size_t count = 0;
        int r = collect_bundle(e, &names, &items, &count);

        if (r == 0)
                r = begin_output(o);
        if (r == 0)
                r = add_key(o, true, OUTPUT_DEPTH + 1, STR("data"));
        if (r == 0)
                r = add_bundle(o, items, count);
        if (r == 0 && e->is_main) {
                r = add_key(o, false, OUTPUT_DEPTH + 1, STR("execution_count"));
                if (r == 0)
                        r = o->execution_count ? buf_addf(&o->text, "%lld", (long long)o->execution_count)
                                               : buf_addc(&o->text, "null");
        }
        if (r == 0)
                r = add_key(o, false, OUTPUT_DEPTH + 1, STR("metadata"));
        if (r == 0)
                r = buf_addc(&o->text, "{}");
        if (r == 0)
                r = add_text(o, false, "output_type", str_of(e->is_main ? "execute_result" : "display_data"));
        return r < 0 ? r : end_output(o);
}

/* ---- errors ---- */

static int note_failure(struct notebook_outputs *o, const struct run_event *e)
{
        int r;

        o->has_failed = true;
        buf_reset(&o->failure);
        buf_reset(&o->traceback);
        r = buf_add(&o->failure, e->name.p, e->name.n);
        if (r == 0 && e->name.n && e->value.n)
                r = buf_addc(&o->failure, ": ");
        if (r == 0 && !e->name.n && e->value.n)
                r = buf_addc(&o->failure, "exit code "); /* of bash */
        if (r == 0)
                r = buf_add(&o->failure, e->value.p, e->value.n);
        return r < 0 ? r : run_traceback(e->traceback, &o->traceback);
}

static int take_error(struct notebook_outputs *o, const struct run_event *e)
{
        int r = note_failure(o, e);

        if (r == 0)
                r = begin_output(o);
        if (r == 0)
                r = add_text(o, true, "ename", e->name);
        if (r == 0)
                r = add_text(o, false, "evalue", e->value);
        if (r == 0)
                r = add_text(o, false, "output_type", STR("error"));
        if (r == 0)
                r = add_key(o, false, OUTPUT_DEPTH + 1, STR("traceback"));
        if (r == 0)
                r = add_split_lines(o, buf_text(&o->traceback), OUTPUT_DEPTH + 1);
        return r < 0 ? r : end_output(o);
}

/* ---- events ---- */

static int take_event(struct notebook_outputs *o, const struct run_event *e)
{
        switch (e->type) {
        case RUN_COUNT: o->execution_count = e->count; return 0;
        case RUN_STDOUT: return buf_add(&o->stream, e->text.p, e->text.n);
        case RUN_STDERR: return buf_add(&o->stream, e->text.p, e->text.n);
        case RUN_RESULT: return take_result(o, e);
        case RUN_ERROR: return take_error(o, e);
        default: return 0;
        }
}

/* An output that does not fit is left out whole: the list stays one. */
static int take_whole(struct notebook_outputs *o, const struct run_event *e /* NULL: the stream so far */)
{
        size_t len = o->text.len, count = o->count;
        int r = e ? take_event(o, e) : flush_stream(o);

        if (r < 0) {
                o->text.len = len;
                o->count = count;
        }
        return r;
}

static bool ends_stream(const struct notebook_outputs *o, const struct run_event *e)
{
        switch (e->type) {
        case RUN_STDOUT: return o->is_stderr;
        case RUN_STDERR: return !o->is_stderr;
        default: return e->type == RUN_RESULT || e->type == RUN_ERROR;
        }
}

static int outputs_failed(int r, struct err *err)
{
        if (r == -E2BIG)
                return err_set(err, ERR_TOO_LARGE, "the outputs of a cell have more than %u MiB",
                               NOTEBOOK_OUTPUTS_MAX >> 20);
        return err_sys(err, r, "keep an output");
}

int notebook_outputs_event(const struct run_event *e, void *outputs, struct err *err)
{
        struct notebook_outputs *o = outputs;
        int r = ends_stream(o, e) ? take_whole(o, NULL) : 0;

        if (e->type == RUN_STDOUT || e->type == RUN_STDERR)
                o->is_stderr = e->type == RUN_STDERR;
        if (r == 0)
                r = take_whole(o, e);
        return r < 0 ? outputs_failed(r, err) : 0;
}

int notebook_outputs_finish(struct notebook_outputs *o, struct buf *out, struct err *err)
{
        int r = take_whole(o, NULL), later;

        o->text.max += 4096; /* the list's end fits in any case */
        later = o->count ? json_text_newline(&o->style, OUTPUT_DEPTH - 1, &o->text) : buf_addc(&o->text, "[");
        if (later == 0)
                later = buf_addc(&o->text, "]");
        if (later == 0)
                later = buf_add(out, buf_text(&o->text).p, o->text.len);
        return r < 0 || later < 0 ? outputs_failed(r < 0 ? r : later, err) : 0;
}
