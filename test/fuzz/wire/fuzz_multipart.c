/* An input that begins with "multipart/" has its Content-Type in its first line; others have the boundary XX. */
#include "fuzz.h"
#include "wire/multipart.h"

struct result {
        enum multipart_step step;
        size_t used;
        struct buf events; /* P name 0 filename 0, D data (joined), E */
        char last;
};

static void result_done(struct result *r)
{
        buf_done(&r->events);
}

static void note(struct result *r, char kind, const void *p, size_t n)
{
        if (kind != 'D' || r->last != 'D')
                MUST(buf_add(&r->events, &kind, 1) == 0);
        MUST(buf_add(&r->events, p, n) == 0);
        r->last = kind;
}

static void note_part(struct result *r, const struct multipart *m)
{
        MUST(r->last != 'P' && r->last != 'D'); /* the part before has ended */
        MUST(m->name.len <= MULTIPART_HEAD_MAX && m->filename.len <= MULTIPART_HEAD_MAX);
        note(r, 'P', buf_at(&m->name), m->name.len);
        note(r, m->has_filename ? 'F' : 'N', buf_at(&m->filename), m->has_filename ? m->filename.len : 0);
        r->last = 'P';
}

static enum multipart_step feed_held(struct multipart *m, struct buf *held, struct result *r)
{
        AUTO_FREE uint8_t *copy = fuzz_copy(buf_at(held), held->len);
        enum multipart_step step;
        size_t at = 0;

        do {
                struct str data = {0};
                size_t used = 0;

                step = multipart_feed(m, copy + at, held->len - at, &used, &data);
                MUST(used <= held->len - at);
                if (step == MULTIPART_PART) {
                        note_part(r, m);
                } else if (step == MULTIPART_DATA) {
                        MUST(data.n > 0 && data.n <= used && (r->last == 'P' || r->last == 'D'));
                        note(r, 'D', data.p, data.n);
                } else if (step == MULTIPART_END) {
                        note(r, 'E', NULL, 0);
                }
                at += used;
        } while (step == MULTIPART_PART || step == MULTIPART_DATA || step == MULTIPART_END);
        buf_consume(held, at);
        MUST(step != MULTIPART_MORE || held->len <= MULTIPART_BOUNDARY_MAX + 8);
        MUST(step != MULTIPART_DONE || held->len == 0);
        r->used += at;
        return step;
}

static int decode(struct str type, const uint8_t *p, size_t n, unsigned way, struct result *ret)
{
        AUTO_BUF struct buf held = BUF_INIT(1 << 21);
        AUTO(multipart_done) struct multipart m = {0};
        struct fuzz_cuts cuts = fuzz_cuts_of(p, n, way);

        *ret = (struct result){.step = MULTIPART_MORE, .events = BUF_INIT(1 << 22)};
        if (multipart_init(&m, type) < 0)
                return -1;
        for (size_t at = 0; at < n && ret->step == MULTIPART_MORE;) {
                size_t piece = way == FUZZ_WAYS ? n : fuzz_cut(&cuts, n - at);

                MUST(buf_add(&held, p + at, piece) == 0);
                at += piece;
                ret->step = feed_held(&m, &held, ret);
        }
        MUST((ret->step == MULTIPART_BAD || ret->step == MULTIPART_TOO_BIG) == (m.why != NULL));
        return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct str type = STR("multipart/form-data; boundary=XX");
        AUTO(result_done) struct result whole;

        if (size > 10 && memcmp(data, "multipart/", 10) == 0) {
                struct str rest = {(const char *)data, size};

                (void)str_cut(&rest, '\n', &type);
                data = (const uint8_t *)rest.p;
                size = rest.n;
        }
        if (decode(type, data, size, FUZZ_WAYS, &whole) < 0)
                return 0;
        for (unsigned way = 0; way < FUZZ_WAYS; way++) {
                AUTO(result_done) struct result r;

                MUST(decode(type, data, size, way, &r) == 0);
                MUST(r.step == whole.step && r.events.len == whole.events.len);
                MUST(r.events.len == 0 || memcmp(r.events.mem, whole.events.mem, r.events.len) == 0);
                MUST(r.step != MULTIPART_MORE || r.used == whole.used);
        }
        return 0;
}
