#include "wire/multipart.h"

#include <errno.h>

#include "tap.h"

/* ---- what happens, as text: <name|filename>data; and how it ended ---- */

static void note_part(struct buf *events, struct multipart *m)
{
        (void)buf_addf(events, "<%s", buf_cstr(&m->name));
        if (m->has_filename)
                (void)buf_addf(events, "|%s", buf_cstr(&m->filename));
        (void)buf_addc(events, ">");
}

/* Feed what is there until nothing moves; what was not used is fed again with more behind. */
static enum multipart_step feed_held(struct multipart *m, struct buf *held, struct buf *events)
{
        enum multipart_step step;

        do {
                AUTO_FREE char *copy = malloc(held->len ? held->len : 1); /* so that reading beyond is caught */
                struct str data = {0};
                size_t used = 0;

                memcpy(copy, buf_at(held), held->len);
                step = multipart_feed(m, copy, held->len, &used, &data);
                if (step == MULTIPART_PART)
                        note_part(events, m);
                else if (step == MULTIPART_DATA)
                        (void)buf_add(events, data.p, data.n);
                else if (step == MULTIPART_END)
                        (void)buf_addc(events, ";");
                buf_consume(held, used);
        } while (step == MULTIPART_PART || step == MULTIPART_DATA || step == MULTIPART_END);
        return step;
}

static enum multipart_step feed(struct str text, size_t first, size_t stride, struct buf *events)
{
        AUTO_BUF struct buf held = BUF_INIT(1 << 20);
        AUTO(multipart_done) struct multipart m = {0};
        enum multipart_step step = MULTIPART_MORE;
        size_t at = 0, n = first;

        if (multipart_init(&m, STR("multipart/form-data; boundary=XX")) < 0)
                return MULTIPART_BAD;
        while (at < text.n && step == MULTIPART_MORE) {
                n = n < text.n - at ? n : text.n - at;
                (void)buf_add(&held, text.p + at, n);
                at += n;
                n = stride;
                step = feed_held(&m, &held, events);
                if (step == MULTIPART_MORE && held.len > MULTIPART_BOUNDARY_MAX + 8)
                        return MULTIPART_BAD; /* it promised to need no more */
        }
        if ((step == MULTIPART_BAD || step == MULTIPART_TOO_BIG) && !m.why)
                return MULTIPART_MORE;
        return step;
}

struct form_case {
        struct str text;
        enum multipart_step step;
        const char *events;
};

static bool agrees(const struct form_case *c, size_t first, size_t stride)
{
        AUTO_BUF struct buf events = BUF_INIT(1 << 20);

        if (feed(c->text, first, stride, &events) != c->step)
                return false;
        return strcmp(buf_cstr(&events), c->events) == 0;
}

static void run_cases(const struct form_case *cases, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                const struct form_case *c = &cases[i];
                bool is_fine = agrees(c, c->text.n, 1) && agrees(c, 1, 1);

                for (size_t cut = 1; cut < c->text.n; cut++)
                        is_fine = is_fine && agrees(c, cut, c->text.n);
                if (!is_fine) {
                        AUTO_BUF struct buf events = BUF_INIT(1 << 20);
                        enum multipart_step step = feed(c->text, c->text.n, 1, &events);

                        printf("# case %zu: step %d, %s\n", i, (int)step, buf_cstr(&events));
                }
                CHECK(is_fine);
        }
}

#define TEXT(s)                                                                                                        \
        {                                                                                                              \
                (s), sizeof(s) - 1                                                                                     \
        }
#define PART(params) "Content-Disposition: form-data; " params "\r\n\r\n"
#define DONE(s, events_)                                                                                               \
        {                                                                                                              \
                TEXT(s), MULTIPART_DONE, events_                                                                       \
        }
#define BAD(s, events_)                                                                                                \
        {                                                                                                              \
                TEXT(s), MULTIPART_BAD, events_                                                                        \
        }

static void forms_are_taken_apart(void)
{
        static const struct form_case cases[] = {
                DONE("--XX\r\n" PART("name=\"a\"") "hello\r\n--XX--\r\n", "<a>hello;"),
                DONE("--XX\r\n" PART("name=\"a\"") "\r\n--XX--", "<a>;"),
                DONE("--XX\r\n" PART("name=a; filename=b.txt") "x\r\n--XX--", "<a|b.txt>x;"),
                DONE("--XX\r\n" PART("name=\"a\"; filename=\"\"") "x\r\n--XX--", "<a|>x;"),
                DONE("--XX\r\n" PART("name=\"a\"") "1\r\n--XX\r\n" PART("name=\"b\"") "2\r\n--XX--\r\nepilogue",
                     "<a>1;<b>2;"),
                DONE("preamble\r\n--XX\r\n" PART("name=\"a\"") "1\r\n--XX--", "<a>1;"),
                DONE("\r\n--XX\r\n" PART("name=\"a\"") "1\r\n--XX--", "<a>1;"),
                DONE("--X\r\n--XX\r\n" PART("name=\"a\"") "1\r\n--XX--", "<a>1;"),
                DONE("--XX \t \r\n" PART("name=\"a\"") "1\r\n--XX  \r\n" PART("name=\"b\"") "2\r\n--XX--",
                     "<a>1;<b>2;"),
                DONE("--XX--", ""),
                DONE("--XX\r\n" PART("name=\"a\"") "\r\n--X\r\n-\r\n\r\n--\r\r\n--XY--XX\r\n--XX--",
                     "<a>\r\n--X\r\n-\r\n\r\n--\r\r\n--XY--XX;"),
                DONE("--XX\r\n" PART("name=\"a\"") "\r\n--X\r\n--XX--", "<a>\r\n--X;"),
                DONE("--XX\r\n" PART("name=\"a\"") "x\r\r\n--XX--", "<a>x\r;"),
                DONE("--XX\r\nContent-Type: text/plain\r\ncontent-disposition:form-data;name=\"a\"\r\n\r\n1\r\n--XX--",
                     "<a>1;"),
                DONE("--XX\r\n" PART("name=\"a\"; filename=\"d/e \xc3\xa9%22;.txt\"") "1\r\n--XX--",
                     "<a|d/e \xc3\xa9%22;.txt>1;"),
                DONE("--XX\r\n" PART("name=\"a\"; filename=\"q\\\"b\\\\c\\d\"") "1\r\n--XX--", "<a|q\"b\\c\\d>1;"),
                DONE("--XX\r\n" PART("name=\"a\"; filename=\"x\"; filename*=UTF-8''%c3%a9%20b") "1\r\n--XX--",
                     "<a|\xc3\xa9 b>1;"),
                DONE("--XX\r\n" PART("filename*=utf-8'en'y; filename=\"x\"; name=\"a\"") "1\r\n--XX--", "<a|y>1;"),
                DONE("--XX\r\n" PART("name=\"a\"; filename=\"x\"; filename*=KOI8-R''%c3") "1\r\n--XX--", "<a|x>1;"),
                DONE("--XX\r\nContent-Transfer-Encoding: binary\r\n" PART("name=\"a\";") "1\r\n--XX--", "<a>1;"),
                {TEXT("--XX\r\n" PART("name=\"a\"") "12\r\n--X"), MULTIPART_MORE, "<a>12"},
                {TEXT("--XX\r\n" PART("name=\"a\"") "12\r\n--XX"), MULTIPART_MORE, "<a>12;"},
                {TEXT("--XX\r\n" PART("name=\"a\"") "12\r\n--XX-"), MULTIPART_MORE, "<a>12;"},
                {TEXT("--X"), MULTIPART_MORE, ""},
                {TEXT("some text\r\n"), MULTIPART_MORE, ""},
        };

        run_cases(cases, ARRAY_LEN(cases));
}

static void malformed_forms_are_refused(void)
{
        static const struct form_case cases[] = {
                BAD("--XXY\r\n", ""),
                BAD("--XX-Y\r\n", ""),
                BAD("--XX\n", ""),
                BAD("--XX\rY", ""),
                BAD("--XX\r\n\r\n1\r\n--XX--", ""),
                BAD("--XX\r\nContent-Type: text/plain\r\n\r\n1\r\n--XX--", ""),
                BAD("--XX\r\nContent-Disposition: form-data\r\n\r\n1\r\n--XX--", ""),
                BAD("--XX\r\nContent-Disposition: attachment; name=a\r\n\r\n1\r\n--XX--", ""),
                BAD("--XX\r\nContent-Disposition: form-data; name=\"a\"\n\n1\r\n--XX--", ""),
                BAD("--XX\r\nContent-Disposition: form-data; name=\"a\"\r\n folded\r\n\r\n1\r\n--XX--", ""),
                BAD("--XX\r\nContent-Disposition : form-data; name=\"a\"\r\n\r\n1\r\n--XX--", ""),
                BAD("--XX\r\nContent-Disposition: form-data; name=a\r\nContent-Disposition: form-data; name=b\r\n\r\n",
                    ""),
                BAD("--XX\r\n" PART("name=\"a\"; name=\"b\"") "1\r\n--XX--", ""),
                BAD("--XX\r\n" PART("name=\"a\"; filename=b; filename=c") "1\r\n--XX--", ""),
                BAD("--XX\r\n" PART("name=\"a") "1\r\n--XX--", ""),
                BAD("--XX\r\n" PART("name=\"a\"b") "1\r\n--XX--", ""),
                BAD("--XX\r\n" PART("name=a\"b\"") "1\r\n--XX--", ""),
                BAD("--XX\r\n" PART("name=") "1\r\n--XX--", ""),
                BAD("--XX\r\n" PART("name=\"a\0b\"") "1\r\n--XX--", ""),
                BAD("--XX\r\n" PART("name=\"a\rb\"") "1\r\n--XX--", ""),
                BAD("--XX\r\n" PART("name=\"a\"; filename*=UTF-8''%zz") "1\r\n--XX--", ""),
                BAD("--XX\r\n" PART("name=\"a\"; filename*=UTF-8''a%00b") "1\r\n--XX--", ""),
                BAD("--XX\r\n" PART("name=\"a\"; filename*=plain") "1\r\n--XX--", ""),
                BAD("--XX\r\nContent-Transfer-Encoding: base64\r\n" PART("name=\"a\"") "1\r\n--XX--", ""),
                BAD("--XX\r\n" PART("name=\"a\"") "1\r\n--XXtail\r\n", "<a>1;"),
        };

        run_cases(cases, ARRAY_LEN(cases));
}

static void heads_of_parts_have_a_limit(void)
{
        for (unsigned extra = 0; extra < 2; extra++) {
                AUTO_BUF struct buf b = BUF_INIT(1 << 20), events = BUF_INIT(1000), ignored = BUF_INIT(1000);
                enum multipart_step want = extra ? MULTIPART_TOO_BIG : MULTIPART_DONE;
                struct str text;

                CHECK_INT(buf_addc(&b, "--XX\r\nContent-Disposition: form-data; name=a\r\nX: "), ==, 0);
                while (b.len < 6 + MULTIPART_HEAD_MAX + extra - 4)
                        CHECK_INT(buf_addc(&b, "x"), ==, 0);
                CHECK_INT(buf_addc(&b, "\r\n\r\n1\r\n--XX--"), ==, 0);
                text = (struct str){(const char *)b.mem, b.len};
                CHECK_INT(feed(text, b.len, 1, &events), ==, want);
                CHECK_INT(feed(text, 1, 1, &ignored), ==, want);
        }
}

static void boundaries_are_checked(void)
{
        static const char *const good[] = {
                "multipart/form-data; boundary=X",
                "Multipart/Form-Data;charset=utf-8;BOUNDARY=\"a b:?\";",
                "multipart/form-data ; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW",
                "multipart/form-data; boundary=----formdata-undici-029384; x=\"y;\\\"z\"",
        };
        static const char *const wrong[] = {
                "",
                "multipart/form-data",
                "multipart/form-data;",
                "multipart/form-data; boundary",
                "multipart/form-data; boundary=",
                "multipart/form-data; boundary=\"\"",
                "multipart/form-data; boundary=\"a",
                "multipart/form-data; boundary=\"a \"",
                "multipart/form-data; boundary=\"a\\\"\"",
                "multipart/form-data; boundary=a; boundary=a",
                "multipart/form-data; boundary=a b",
                "multipart/form-data boundary=a",
                "multipart/form-data; boundary=\xc3\xa9",
                "multipart/mixed; boundary=a",
                "application/json",
        };

        for (size_t i = 0; i < ARRAY_LEN(good); i++) {
                AUTO(multipart_done) struct multipart m = {0};

                CHECK_INT(multipart_init(&m, str_of(good[i])), ==, 0);
        }
        for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
                struct multipart m = {0};

                CHECK_INT(multipart_init(&m, str_of(wrong[i])), ==, -EINVAL);
        }
}

static void boundaries_have_a_limit(void)
{
        for (int extra = 0; extra < 2; extra++) {
                AUTO(multipart_done) struct multipart m = {0};
                char text[300];
                int n = snprintf(text, sizeof(text), "multipart/form-data; boundary=%0*d",
                                 MULTIPART_BOUNDARY_MAX + extra, 0);

                CHECK_INT(multipart_init(&m, (struct str){text, (size_t)n}), ==, extra ? -EINVAL : 0);
        }
}

int main(void)
{
        RUN(forms_are_taken_apart);
        RUN(malformed_forms_are_refused);
        RUN(heads_of_parts_have_a_limit);
        RUN(boundaries_are_checked);
        RUN(boundaries_have_a_limit);
        return tap_done();
}
