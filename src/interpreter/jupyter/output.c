#include "interpreter/jupyter/output.h"

#include <errno.h>

#include "base/clock.h"
#include "interpreter/jupyter/json_text.h"
#include "interpreter/jupyter/message.h"

static const struct {
        const char *mime, *field;
} fields[] = {
        {"text/html", "html"},    {"text/markdown", "markdown"},
        {"image/svg+xml", "svg"}, {"image/png", "png"},
        {"image/jpeg", "jpeg"},   {"application/pdf", "pdf"},
        {"text/latex", "latex"},  {"application/json", "json"},
        {"e2b/data", "data"},     {"application/javascript", "javascript"},
        {"e2b/chart", "chart"},
};

static const char *field_of(struct str mime)
{
        for (size_t i = 0; i < ARRAY_LEN(fields); i++)
                if (str_is(mime, fields[i].mime))
                        return fields[i].field;
        return NULL;
}

/* Undo what was appended since `len`. */
static void cut_back(struct buf *out, size_t len)
{
        out->len = len;
}

/* A string value as it is, or "" when there is none. */
static int add_string(struct str value, struct buf *out)
{
        if (value.n && value.p[0] == '"')
                return json_text_copy(value, out);
        return buf_addc(out, "\"\"");
}

/* ---- stream ---- */

static int add_timestamp(struct str date, struct buf *out)
{
        char text[CLOCK_TEXT_MAX];
        int64_t ns;

        if (clock_parse(date, &ns) < 0)
                ns = clock_real_ns();
        clock_format(ns, text);
        text[strlen(text) - 1] = 0; /* the Z */
        return buf_addf(out, ",\"timestamp\":\"%s+00:00\"}\n", text);
}

static int add_stream(const struct jupyter_message *m, struct buf *out)
{
        struct str name = json_text_get_raw(m->content, "name"), text = json_text_get(m->content, "text");
        int r;

        if ((!str_is(name, "stdout") && !str_is(name, "stderr")) || text.n == 0 || text.p[0] != '"')
                return -EBADMSG;
        if (text.n == 2)
                return 0; /* nothing was printed */
        r = buf_addf(out, "{\"type\":\"%.*s\",\"text\":", STR_ARG(name));
        if (r == 0)
                r = json_text_copy(text, out);
        if (r == 0)
                r = add_timestamp(m->date, out);
        return r < 0 ? r : 1;
}

/* ---- results ---- */

static const struct {
        const char *written;
        char quote;
} quotes[] = {{"'", '\''}, {"\\u0027", '\''}, {"\\\"", '"'}, {"\\u0022", '"'}};

/* Is what ends here behind an odd number of backslashes?  Then its own backslash is none. */
static bool is_escaped(struct str s)
{
        size_t n = 0;

        while (n < s.n && s.p[s.n - 1 - n] == '\\')
                n++;
        return n % 2;
}

/* The quote character with which the text of a JSON string begins or ends, and how many bytes it is written as; 0: none. */
static char quote_at_begin(struct str s, size_t *ret_len)
{
        for (size_t i = 0; i < ARRAY_LEN(quotes); i++)
                if (str_starts(s, quotes[i].written)) {
                        *ret_len = strlen(quotes[i].written);
                        return quotes[i].quote;
                }
        return 0;
}

static char quote_at_end(struct str s, size_t *ret_len)
{
        for (size_t i = 0; i < ARRAY_LEN(quotes); i++) {
                size_t n = strlen(quotes[i].written);

                if (str_ends(s, quotes[i].written) && !is_escaped((struct str){s.p, s.n - n})) {
                        *ret_len = n;
                        return quotes[i].quote;
                }
        }
        return 0;
}

/* One quote character is cut at both ends, however it is written. */
static void cut_quotes(struct buf *out, size_t begin)
{
        uint8_t *p = buf_at(out) + begin;
        struct str all = {(const char *)p, out->len - begin};
        size_t first = 0, last = 0;
        char quote = quote_at_begin(all, &first);

        if (!quote || quote_at_end(all, &last) != quote || first + last > all.n)
                return;
        memmove(p, p + first, all.n - first - last);
        out->len -= first + last;
}

static int add_text(struct str value, struct buf *out)
{
        size_t begin;
        int r;

        if (value.p[0] != '"')
                return json_text_copy(value, out);
        r = buf_addc(out, "\"");
        if (r < 0)
                return r;
        begin = out->len;
        r = json_text_copy_inner(value, out);
        if (r < 0)
                return r;
        cut_quotes(out, begin);
        return buf_addc(out, "\"");
}

/* A format that is nested too deeply is left out, and the others stay. */
static int leave_out_if_deep(int r, size_t begin, struct buf *out)
{
        if (r != -ELOOP)
                return r;
        cut_back(out, begin);
        return 0;
}

static int add_format(const struct json_member *m, struct buf *out)
{
        const char *field = field_of(m->key);
        size_t begin = out->len;
        int r;

        if (str_is(m->value, "null"))
                return 0;
        if (str_is(m->key, "text/plain")) {
                r = buf_addc(out, ",\"text\":");
                return leave_out_if_deep(r < 0 ? r : add_text(m->value, out), begin, out);
        }
        if (!field)
                return 0; /* it is in "extra" */
        r = buf_addf(out, ",\"%s\":", field);
        return leave_out_if_deep(r < 0 ? r : json_text_copy(m->value, out), begin, out);
}

static int add_extra_format(const struct json_member *m, bool is_first, struct buf *out)
{
        size_t begin = out->len;
        int r = is_first ? 0 : buf_addc(out, ",");

        if (r == 0) /* the quotes are right before and behind the key */
                r = json_text_copy((struct str){m->key.p - 1, m->key.n + 2}, out);
        if (r == 0)
                r = buf_addc(out, ":");
        if (r == 0)
                r = json_text_copy(m->value, out);
        return leave_out_if_deep(r, begin, out);
}

static int add_extra(struct str data, struct buf *out)
{
        struct json_cursor c = {.left = data};
        struct json_member m;
        int r = buf_addc(out, ",\"extra\":{");
        size_t begin = out->len;

        while (r == 0 && json_text_next(&c, &m) > 0) {
                if (field_of(m.key) || str_is(m.key, "text/plain"))
                        continue;
                r = add_extra_format(&m, out->len == begin, out);
        }
        return r < 0 ? r : buf_addc(out, "}");
}

static int add_result(const struct jupyter_message *m, bool is_main, struct buf *out)
{
        struct str data = json_text_get(m->content, "data");
        struct json_cursor c = {.left = data};
        struct json_member member;
        int r;

        if (data.n == 0 || data.p[0] != '{')
                return -EBADMSG;
        r = buf_addc(out, "{\"type\":\"result\"");
        while (r == 0 && json_text_next(&c, &member) > 0)
                r = add_format(&member, out);
        if (r == 0)
                r = add_extra(data, out);
        if (r == 0)
                r = buf_addf(out, ",\"is_main_result\":%s}\n", is_main ? "true" : "false");
        return r < 0 ? r : 1;
}

/* ---- errors ---- */

static int add_traceback(struct str frames, struct buf *out)
{
        struct json_cursor c = {.left = frames};
        struct str frame;
        int r = buf_addc(out, "\"");

        if (frames.n && frames.p[0] == '"') {
                if (r == 0)
                        r = json_text_copy_inner(frames, out);
                return r < 0 ? r : buf_addc(out, "\"");
        }
        while (r == 0 && frames.n && json_text_next_element(&c, &frame) > 0)
                if (frame.p[0] == '"')
                        r = json_text_copy_inner(frame, out);
        return r < 0 ? r : buf_addc(out, "\"");
}

static int add_kernel_error(struct str content, struct buf *out)
{
        int r = buf_addc(out, "{\"type\":\"error\",\"name\":");

        if (r == 0)
                r = add_string(json_text_get(content, "ename"), out);
        if (r == 0)
                r = buf_addc(out, ",\"value\":");
        if (r == 0)
                r = add_string(json_text_get(content, "evalue"), out);
        if (r == 0)
                r = buf_addc(out, ",\"traceback\":");
        if (r == 0)
                r = add_traceback(json_text_get(content, "traceback"), out);
        if (r == 0)
                r = buf_addc(out, "}\n");
        return r < 0 ? r : 1;
}

/* ---- */

static int add_line(const struct jupyter_message *m, struct buf *out)
{
        if (str_is(m->type, "stream"))
                return add_stream(m, out);
        if (str_is(m->type, "execute_result"))
                return add_result(m, true, out);
        if (str_is(m->type, "display_data"))
                return add_result(m, false, out);
        return str_is(m->type, "error") ? add_kernel_error(m->content, out) : 0;
}

int output_add_message(const struct jupyter_message *m, struct buf *out)
{
        size_t begin = out->len;
        int r = add_line(m, out);

        if (r < 0)
                cut_back(out, begin);
        return r;
}

int output_add_reply_error(struct str content, struct buf *out)
{
        size_t begin = out->len;
        int r = add_kernel_error(content, out);

        if (r < 0)
                cut_back(out, begin);
        return r;
}

int output_add_count(int64_t execution_count, struct buf *out)
{
        return buf_addf(out, "{\"type\":\"number_of_executions\",\"execution_count\":%lld}\n",
                        (long long)execution_count);
}

int output_add_error(const char *name, const char *value, struct buf *out)
{
        size_t begin = out->len;
        int r = buf_addf(out, "{\"type\":\"error\",\"name\":\"%s\",\"value\":", name);

        if (r == 0)
                r = json_text_quote(str_of(value), out);
        if (r == 0)
                r = buf_addc(out, ",\"traceback\":\"\"}\n");
        if (r < 0)
                cut_back(out, begin);
        return r;
}
