#include "client/code/run_stream.h"

#include <errno.h>

#include "base/err.h"
#include "wire/json/json_text.h"

#define RULE_MIN 20u /* dashes */

static const struct {
        const char *name, *mime;
        bool is_text; /* else any value */
} fields[RUN_FIELD_COUNT] = {
        [RUN_TEXT] = {"text", "text/plain", true},
        [RUN_HTML] = {"html", "text/html", true},
        [RUN_MARKDOWN] = {"markdown", "text/markdown", true},
        [RUN_SVG] = {"svg", "image/svg+xml", true},
        [RUN_PNG] = {"png", "image/png", true},
        [RUN_JPEG] = {"jpeg", "image/jpeg", true},
        [RUN_PDF] = {"pdf", "application/pdf", true},
        [RUN_LATEX] = {"latex", "text/latex", true},
        [RUN_JSON] = {"json", "application/json", false},
        [RUN_JAVASCRIPT] = {"javascript", "application/javascript", true},
        [RUN_DATA] = {"data", "e2b/data", false},
        [RUN_CHART] = {"chart", "e2b/chart", false},
};

const char *run_field_mime(enum run_field field)
{
        return fields[field].mime;
}

int run_traceback(struct str traceback, struct buf *out)
{
        static const char title[] = "Traceback (most recent call last)";
        size_t rule = 0, end;
        const char *found;
        int r;

        while (rule < traceback.n && traceback.p[rule] == '-')
                rule++;
        found = rule >= RULE_MIN ? memmem(traceback.p, traceback.n, title, strlen(title)) : NULL;
        if (!found)
                return buf_add(out, traceback.p, traceback.n);
        end = (size_t)(found - traceback.p) + strlen(title);
        r = buf_add(out, traceback.p, rule);
        if (r == 0 && traceback.p[rule] != '\n')
                r = buf_addc(out, "\n");
        if (r == 0)
                r = buf_add(out, traceback.p + rule, end - rule);
        if (r == 0 && end < traceback.n && traceback.p[end] != '\n')
                r = buf_addc(out, "\n");
        return r < 0 ? r : buf_add(out, traceback.p + end, traceback.n - end);
}

/* ---- one line ---- */

static int wrong_type(const char *type, const char *field, struct err *err)
{
        return err_set(err, ERR_INTERNAL, "'%s' of '%s' has a wrong type", field, type);
}

/* null counts as absent, everywhere. */
static struct str given(struct str object, const char *key)
{
        struct str value = json_text_get(object, key);

        return json_text_kind(value) == JSON_TEXT_NULL ? (struct str){NULL, 0} : value;
}

/* The text of a string field, in `texts`, whose memory does not move.  Absent: empty, or an error. */
static int take_text(struct str object, const char *type, const char *key, bool is_needed, struct buf *texts,
                     struct str *ret, struct err *err)
{
        struct str value = given(object, key);
        size_t before = texts->len;
        int r;

        *ret = (struct str){"", 0};
        if (!value.n && !is_needed)
                return 0;
        if (json_text_kind(value) != JSON_TEXT_STRING)
                return wrong_type(type, key, err);
        if (json_text_plain(value, ret))
                return 0;
        r = json_text_unquote(value, texts);
        if (r < 0)
                return err_sys(err, r, "keep the output");
        *ret = (struct str){(const char *)buf_at(texts) + before, texts->len - before};
        return 0;
}

static int take_result(struct str object, struct run_event *e, struct err *err)
{
        struct json_walk w = json_text_walk(object);
        struct str key, value;

        while (json_text_next(&w, &key, &value)) {
                if (json_text_kind(value) == JSON_TEXT_NULL)
                        continue;
                for (size_t i = 0; i < RUN_FIELD_COUNT; i++) {
                        if (!json_text_is(key, fields[i].name))
                                continue;
                        if (fields[i].is_text && json_text_kind(value) != JSON_TEXT_STRING)
                                return wrong_type("result", fields[i].name, err);
                        e->fields[i] = value;
                }
                if (json_text_is(key, "extra")) {
                        if (json_text_kind(value) != JSON_TEXT_OBJECT)
                                return wrong_type("result", "extra", err);
                        e->extra = value;
                } else if (json_text_is(key, "is_main_result")) {
                        if (json_text_kind(value) != JSON_TEXT_BOOL)
                                return wrong_type("result", "is_main_result", err);
                        e->is_main = value.p[0] == 't';
                }
        }
        return 0;
}

static int take_error(struct str object, struct buf *texts, struct run_event *e, struct err *err)
{
        int r = take_text(object, "error", "name", false, texts, &e->name, err);

        if (r == 0)
                r = take_text(object, "error", "value", false, texts, &e->value, err);
        return r < 0 ? r : take_text(object, "error", "traceback", false, texts, &e->traceback, err);
}

static int take_fields(struct str object, struct buf *texts, struct run_event *e, struct err *err)
{
        switch (e->type) {
        case RUN_STDOUT: return take_text(object, "stdout", "text", true, texts, &e->text, err);
        case RUN_STDERR: return take_text(object, "stderr", "text", true, texts, &e->text, err);
        case RUN_RESULT: return take_result(object, e, err);
        case RUN_ERROR: return take_error(object, texts, e, err);
        case RUN_COUNT:
                if (json_text_integer(given(object, "execution_count"), &e->count) < 0 || e->count < 0)
                        return wrong_type("number_of_executions", "execution_count", err);
                return 0;
        default: return 0;
        }
}

static enum run_event_type type_of(struct str name)
{
        static const char *const names[] = {
                [RUN_COUNT] = "number_of_executions",
                [RUN_STDOUT] = "stdout",
                [RUN_STDERR] = "stderr",
                [RUN_RESULT] = "result",
                [RUN_ERROR] = "error",
                [RUN_KEEPALIVE] = "keepalive",
                [RUN_END] = "end_of_execution",
        };

        for (size_t i = 0; i < ARRAY_LEN(names); i++)
                if (json_text_is(name, names[i]))
                        return (enum run_event_type)i;
        return RUN_OTHER;
}

int run_event_decode(struct str line, struct buf *texts, struct run_event *ret, struct err *err)
{
        struct str object, type;
        uint8_t *room;

        if (json_text_check(line, &object, NULL) < 0 || json_text_kind(object) != JSON_TEXT_OBJECT)
                return err_set(err, ERR_INTERNAL, "it is no JSON object");
        type = given(object, "type");
        if (json_text_kind(type) != JSON_TEXT_STRING)
                return err_set(err, ERR_INTERNAL, "it has no type");
        *ret = (struct run_event){.type = type_of(type),
                                  .line = line,
                                  .text = STR(""),
                                  .name = STR(""),
                                  .value = STR(""),
                                  .traceback = STR("")};
        buf_reset(texts);
        /* No text has more bytes than the JSON that it stands in, but for half pairs: 3 bytes for 6. */
        if (buf_reserve(texts, line.n, &room) < 0)
                return err_set(err, ERR_LIMIT, "out of memory");
        return take_fields(object, texts, ret, err);
}

/* ---- many lines ---- */

void run_stream_init(struct run_stream *s, size_t line_max)
{
        *s = (struct run_stream){.line = BUF_INIT(line_max), .texts = BUF_INIT(line_max), .line_max = line_max};
}

void run_stream_done(struct run_stream *s)
{
        buf_done(&s->line);
        buf_done(&s->texts);
}

static int tell_line(struct run_stream *s, struct str line, run_event_fn *on_event, void *arg, struct err *err)
{
        struct run_event e;
        int r;

        s->line_number++;
        r = run_event_decode(line, &s->texts, &e, err);
        if (r < 0)
                return err_wrap(err, "line %llu of the code interpreter's answer", (unsigned long long)s->line_number);
        s->is_over = e.type == RUN_END;
        return on_event(&e, arg, err);
}

static int keep_part(struct run_stream *s, struct str part, struct err *err)
{
        int r = buf_add(&s->line, part.p, part.n);

        if (r == -E2BIG)
                return err_set(err, ERR_TOO_LARGE, "line %llu of the code interpreter's answer has more than %zu bytes",
                               (unsigned long long)s->line_number + 1, s->line_max);
        return r < 0 ? err_sys(err, r, "keep the code interpreter's answer") : 0;
}

int run_stream_feed(struct run_stream *s, struct str piece, run_event_fn *on_event, void *arg, struct err *err)
{
        int r = 0;

        while (r == 0 && piece.n && !s->is_over) {
                const char *end = memchr(piece.p, '\n', piece.n);
                struct str part = {piece.p, end ? (size_t)(end - piece.p) : piece.n};

                if (!end || s->line.len || part.n > s->line_max)
                        r = keep_part(s, part, err);
                if (r == 0 && end) {
                        r = tell_line(s, s->line.len ? buf_text(&s->line) : part, on_event, arg, err);
                        buf_reset(&s->line);
                }
                part.n += end != NULL;
                piece = (struct str){piece.p + part.n, piece.n - part.n};
        }
        return r;
}

int run_stream_finish(struct run_stream *s, run_event_fn *on_event, void *arg, struct err *err)
{
        int r = 0;

        if (s->line.len && !s->is_over)
                r = tell_line(s, buf_text(&s->line), on_event, arg, err);
        buf_reset(&s->line);
        if (r == 0 && !s->is_over)
                r = err_set(err, ERR_UNAVAILABLE, "the code interpreter's answer ended before the run did");
        return r;
}
