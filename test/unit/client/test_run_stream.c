#include "client/code/run_stream.h"

#include "base/err.h"
#include "wire/json/json_text.h"

#include "tap.h"

struct told {
        struct buf log;
        int refuse_at; /* 0: none */
        int count;
};

static int tell(const struct run_event *e, void *arg, struct err *err)
{
        static const char *const names[] = {"count", "out", "err", "result", "error", "alive", "end", "other"};
        struct told *t = arg;

        (void)buf_addf(&t->log, "%s", names[e->type]);
        if (e->type == RUN_COUNT)
                (void)buf_addf(&t->log, "=%lld", (long long)e->count);
        if (e->text.n)
                (void)buf_addf(&t->log, "=%.*s", STR_ARG(e->text));
        if (e->type == RUN_ERROR)
                (void)buf_addf(&t->log, "=%.*s|%.*s|%.*s", STR_ARG(e->name), STR_ARG(e->value), STR_ARG(e->traceback));
        for (size_t i = 0; i < RUN_FIELD_COUNT; i++)
                if (e->fields[i].n)
                        (void)buf_addf(&t->log, " %s=%.*s", run_field_mime((enum run_field)i), STR_ARG(e->fields[i]));
        (void)buf_addf(&t->log, "%s;", e->is_main ? " main" : "");
        if (++t->count == t->refuse_at)
                return err_set(err, ERR_CONFLICT, "refused");
        return 0;
}

/* In pieces of `size` bytes; the log, or the error. */
static const char *decode(struct told *t, const char *text, size_t size, struct err *err)
{
        struct run_stream s;
        struct str rest = str_of(text);
        int r = 0;

        buf_reset(&t->log);
        t->count = 0;
        run_stream_init(&s, 200);
        while (r == 0 && rest.n) {
                size_t n = rest.n < size ? rest.n : size;

                r = run_stream_feed(&s, (struct str){rest.p, n}, tell, t, err);
                rest = (struct str){rest.p + n, rest.n - n};
        }
        if (r == 0)
                r = run_stream_finish(&s, tell, t, err);
        run_stream_done(&s);
        return r < 0 ? err->msg : buf_cstr(&t->log);
}

#define TOLD(name) AUTO(told_done) struct told name = {.log = BUF_INIT(1 << 16)}
static void told_done(struct told *t)
{
        buf_done(&t->log);
}

#define END "{\"type\":\"end_of_execution\"}\n"

static void events_are_told_in_any_pieces(void)
{
        static const char text[] = "{\"type\":\"number_of_executions\",\"execution_count\":3}\n"
                                   "{\"type\":\"stdout\",\"text\":\"h\\u00e9\\n\",\"timestamp\":\"x\"}\n"
                                   "{\"text\":\"plain\",\"type\":\"stderr\"}\n"
                                   "{\"type\":\"result\",\"text\":\"42\",\"json\":[1.0],\"html\":null,\"extra\":{},"
                                   "\"is_main_result\":true}\n"
                                   "{\"type\":\"error\",\"name\":\"E\",\"value\":\"a\\nb\"}\n"
                                   "{\"type\":\"keepalive\"}\n{\"type\":\"new\"}\n" END "dropped\n";
        static const char log[] = "count=3;out=h\xc3\xa9\n;err=plain;result text/plain=\"42\" application/json=[1.0] "
                                  "main;error=E|a\nb|;alive;other;end;";
        TOLD(t);

        for (size_t size = 1; size < sizeof(text); size++) {
                struct err err = {0};

                CHECK_STR(decode(&t, text, size, &err), log);
        }
}

static void broken_lines_are_named(void)
{
        static const struct {
                const char *text, *words;
        } cases[] = {
                {"x\n", "line 1 of the code interpreter's answer: it is no JSON object"},
                {"{\"type\":\"keepalive\"}\n\n", "line 2 of the code interpreter's answer: it is no JSON object"},
                {"{}\n", "line 1 of the code interpreter's answer: it has no type"},
                {"{\"type\":null}\n", "line 1 of the code interpreter's answer: it has no type"},
                {"{\"type\":\"stdout\"}\n",
                 "line 1 of the code interpreter's answer: 'text' of 'stdout' has a wrong type"},
                {"{\"type\":\"stdout\",\"text\":[]}\n",
                 "line 1 of the code interpreter's answer: 'text' of 'stdout' has a wrong type"},
                {"{\"type\":\"result\",\"svg\":1}\n",
                 "line 1 of the code interpreter's answer: 'svg' of 'result' has a wrong type"},
                {"{\"type\":\"result\",\"is_main_result\":1}\n",
                 "line 1 of the code interpreter's answer: 'is_main_result' of 'result' has a wrong type"},
                {"{\"type\":\"number_of_executions\",\"execution_count\":-1}\n",
                 "line 1 of the code interpreter's answer: 'execution_count' of 'number_of_executions' has a wrong "
                 "type"},
                {"{\"type\":\"error\",\"traceback\":[]}\n",
                 "line 1 of the code interpreter's answer: 'traceback' of 'error' has a wrong type"},
                {"", "the code interpreter's answer ended before the run did"},
                {"{\"type\":\"keepalive\"}\n", "the code interpreter's answer ended before the run did"},
                {"{\"type\":\"end_of", "line 1 of the code interpreter's answer: it is no JSON object"},
        };
        TOLD(t);

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct err err = {0};

                CHECK_STR(decode(&t, cases[i].text, 7, &err), cases[i].words);
        }
}

static void a_line_has_a_limit(void)
{
        char text[400] = "{\"type\":\"stdout\",\"text\":\"";
        struct err err = {0};
        TOLD(t);

        memset(text + strlen(text), 'x', 300);
        for (size_t size = 1; size < 400; size += 57)
                CHECK_STR(decode(&t, text, size, &err),
                          "line 1 of the code interpreter's answer has more than 200 bytes");
        text[300] = '\n';
        CHECK_STR(decode(&t, text, 399, &err), "line 1 of the code interpreter's answer has more than 200 bytes");
}

static void the_last_line_needs_no_end(void)
{
        struct err err = {0};
        TOLD(t);

        CHECK_STR(decode(&t, "{\"type\":\"end_of_execution\"}", 5, &err), "end;");
}

static void who_hears_may_refuse(void)
{
        struct err err = {0};
        TOLD(t);

        t.refuse_at = 2;
        CHECK_STR(decode(&t, "{\"type\":\"keepalive\"}\n{\"type\":\"keepalive\"}\n" END, 1000, &err), "refused");
        CHECK_INT(t.count, ==, 2);
}

static void tracebacks_get_their_lines_back(void)
{
        static const struct {
                const char *given, *lines;
        } cases[] = {
                {"-------------------------ZeroDivisionError   Traceback (most recent call last)Cell In[3], line "
                 "1\n----> 1 1/0\n",
                 "-------------------------\nZeroDivisionError   Traceback (most recent call last)\nCell In[3], line "
                 "1\n----> 1 1/0\n"},
                {"-------------------------\nE Traceback (most recent call last)\nx",
                 "-------------------------\nE Traceback (most recent call last)\nx"},
                {"-------------------------E Traceback (most recent call last)",
                 "-------------------------\nE Traceback (most recent call last)"},
                {"Traceback (most recent call last):\n  File", "Traceback (most recent call last):\n  File"},
                {"---- Traceback (most recent call last)x", "---- Traceback (most recent call last)x"},
                {"-------------------------", "-------------------------"},
                {"", ""},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                AUTO_BUF struct buf out = BUF_INIT(1000);

                CHECK_INT(run_traceback(str_of(cases[i].given), &out), ==, 0);
                CHECK_STR(buf_cstr(&out), cases[i].lines);
        }
}

int main(void)
{
        RUN(tracebacks_get_their_lines_back);
        RUN(events_are_told_in_any_pieces);
        RUN(broken_lines_are_named);
        RUN(a_line_has_a_limit);
        RUN(the_last_line_needs_no_end);
        RUN(who_hears_may_refuse);
        return tap_done();
}
