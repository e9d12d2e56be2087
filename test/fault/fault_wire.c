#include <errno.h>
#include <string.h>

#include "wire/base64.h"
#include "wire/connect.h"
#include "wire/http1.h"
#include "wire/multipart.h"
#include "wire/url.h"

#include "fault.h"

/* ---- one function per case: 0, or what went wrong ---- */

static int decode_dup(void)
{
        static char untouched;
        char *text = &untouched;
        int r = url_decode_dup(STR("a%20b"), false, &text);

        if (r < 0)
                return text == &untouched ? r : BROKEN("output touched on failure");
        r = strcmp(text, "a b") == 0 ? 0 : BROKEN("decoded wrongly");
        free(text);
        return r;
}

static int query_get(void)
{
        static char untouched;
        char *text = &untouched;
        int r = url_query_get(STR("x=1&path=a+b"), "path", &text);

        if (r < 0)
                return text == &untouched ? r : BROKEN("output touched on failure");
        r = strcmp(text, "a b") == 0 ? 0 : BROKEN("decoded wrongly");
        free(text);
        return r;
}

/* What is appended to a buf is all there or not at all. */
static int check_grown(const struct buf *b, size_t before, int r)
{
        return r < 0 && b->len != before ? BROKEN("something was appended") : r;
}

static int decode_and_encode(void)
{
        AUTO_BUF struct buf b = BUF_INIT(10000);
        int r = check_grown(&b, 0, url_decode(STR("a%20b"), false, &b));

        for (int i = 0; r == 0 && i < 100; i++) {
                size_t before = b.len;

                r = check_grown(&b, before, url_encode(STR("a b/c"), &b));
        }
        return r;
}

static int base64_both_ways(void)
{
        AUTO_BUF struct buf b = BUF_INIT(10000), plain = BUF_INIT(10000);
        int r = check_grown(&b, 0, base64_add(&b, "hello", 5, true));

        if (r == 0)
                r = check_grown(&plain, 0, base64_decode(STR("aGVsbG8="), &plain));
        return r;
}

static int envelopes(void)
{
        AUTO_BUF struct buf b = BUF_INIT(10000);
        int r = 0;

        for (int i = 0; r == 0 && i < 50; i++) {
                size_t before = b.len;

                r = check_grown(&b, before, connect_envelope_add(&b, 0, "{\"a\":\"bcdefghijk\"}", 19));
        }
        return r;
}

static int write_head(struct buf *b)
{
        int r = check_grown(b, 0, http1_write_status_line(b, 200, STR("")));

        for (int i = 0; r == 0 && i < 30; i++) {
                size_t before = b->len;

                r = check_grown(b, before, http1_write_header(b, STR("Content-Type"), STR("application/json")));
                before = b->len;
                if (r == 0)
                        r = check_grown(b, before, http1_write_headerf(b, "Content-Length", "%d", i));
        }
        return r == 0 ? http1_write_end(b) : r;
}

static int heads(void)
{
        AUTO_BUF struct buf b = BUF_INIT(10000);

        return write_head(&b);
}

static int feed_form(struct multipart *m, const char *text, size_t n)
{
        enum multipart_step step;
        size_t parts = 0;

        do {
                struct str data;
                size_t used = 0;

                step = multipart_feed(m, text, n, &used, &data);
                parts += step == MULTIPART_PART;
                text += used;
                n -= used;
        } while (step == MULTIPART_PART || step == MULTIPART_DATA || step == MULTIPART_END);
        if (step == MULTIPART_BAD)
                return strcmp(m->why, "out of memory") == 0 ? -ENOMEM : BROKEN("refused for another reason");
        return step == MULTIPART_DONE && parts == 2 ? 0 : BROKEN("not two parts");
}

static int form(void)
{
        static const char text[] = "--XX\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n"
                                   "--XX\r\nContent-Disposition: form-data; name=\"b\"; filename=\"c\\\"d\"; "
                                   "filename*=UTF-8''%c3%a9\r\n\r\n2\r\n--XX--\r\n";
        struct multipart m;
        int r = multipart_init(&m, STR("multipart/form-data; charset=\"utf-8\"; boundary=\"XX\""));

        if (r < 0)
                return r;
        r = feed_form(&m, text, sizeof(text) - 1);
        multipart_done(&m);
        return r;
}

int main(void)
{
        EACH_ENOMEM(decode_dup);
        EACH_ENOMEM(query_get);
        EACH_ENOMEM(decode_and_encode);
        EACH_ENOMEM(base64_both_ways);
        EACH_ENOMEM(envelopes);
        EACH_ENOMEM(heads);
        EACH_ENOMEM(form);
        return fault_done();
}
