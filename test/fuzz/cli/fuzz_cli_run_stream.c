/* The answer of a code interpreter means the same in whatever pieces it comes. */
#include "base/err.h"
#include "wire/json/json_text.h"
#include "client/code/run_stream.h"
#include "fuzz.h"

#define LINE_MAX_BYTES 4096u

struct told {
        struct buf text; /* the events, written down */
        bool has_ended;
};

static int tell(const struct run_event *e, void *arg, struct err *err)
{
        struct told *t = arg;
        const struct str texts[] = {e->text, e->name, e->value, e->traceback, e->extra};

        (void)err;
        MUST(!t->has_ended);
        t->has_ended = e->type == RUN_END;
        MUST(buf_addf(&t->text, "%d %lld %d %zu:", (int)e->type, (long long)e->count, e->is_main, e->line.n) == 0);
        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                MUST(!texts[i].n || str_is_utf8(texts[i]));
                MUST(buf_add(&t->text, texts[i].n ? texts[i].p : "", texts[i].n) == 0);
        }
        for (size_t i = 0; i < RUN_FIELD_COUNT; i++)
                MUST(buf_add(&t->text, e->fields[i].n ? e->fields[i].p : "", e->fields[i].n) == 0);
        return 0;
}

static int feed(const uint8_t *data, size_t size, unsigned way, struct told *t, struct err *err)
{
        struct fuzz_cuts cuts = fuzz_cuts_of(data, size, way);
        struct run_stream s;
        size_t at = 0;
        int r = 0;

        run_stream_init(&s, LINE_MAX_BYTES);
        while (r == 0 && at < size) {
                size_t n = fuzz_cut(&cuts, size - at);
                AUTO_FREE uint8_t *piece = fuzz_copy(data + at, n);

                r = run_stream_feed(&s, (struct str){(const char *)piece, n}, tell, t, err);
                at += n;
        }
        if (r == 0)
                r = run_stream_finish(&s, tell, t, err);
        MUST(s.line.len <= LINE_MAX_BYTES && (r < 0) == (err->kind != ERR_NONE));
        run_stream_done(&s);
        return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct told first = {.text = BUF_INIT(1 << 26)};
        struct err why = {0};
        int r = feed(data, size, 0, &first, &why);

        MUST(r < 0 || first.has_ended);
        for (unsigned way = 1; way < FUZZ_WAYS; way++) {
                struct told other = {.text = BUF_INIT(1 << 26)};
                struct err other_why = {0};

                MUST(feed(data, size, way, &other, &other_why) == r);
                MUST(strcmp(why.msg, other_why.msg) == 0);
                MUST(str_eq(buf_text(&first.text), buf_text(&other.text)));
                buf_done(&other.text);
        }
        buf_done(&first.text);
        return 0;
}
