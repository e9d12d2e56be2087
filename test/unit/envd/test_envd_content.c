/* What describes a file's bytes: types, names, dates, ranges. */
#include <errno.h>

#include "envd/files/accept_encoding.h"
#include "envd/files/content_headers.h"
#include "envd/files/gunzip.h"
#include "envd/files/gzip.h"
#include "tap.h"

static void knows_types_by_name_and_by_bytes(void)
{
        CHECK_STR(content_type_of_name(STR("a.JSON")), "application/json");
        CHECK_STR(content_type_of_name(STR("a.tar.gz")), "application/gzip");
        CHECK(!content_type_of_name(STR("a")));
        CHECK(!content_type_of_name(STR("a.")));
        CHECK(!content_type_of_name(STR("a.unheard-of")));
        CHECK_STR(content_type_of_bytes("", 0), "text/plain; charset=utf-8");
        CHECK_STR(content_type_of_bytes("\0", 1), "application/octet-stream");
        CHECK_STR(content_type_of_bytes("%PDF-1", 6), "application/pdf");
        CHECK_STR(content_type_of_bytes("\n <HTML>", 8), "text/html; charset=utf-8");
        CHECK_STR(content_type_of_bytes("<htmlx", 6), "text/plain; charset=utf-8");
        CHECK_STR(content_type_of_bytes("\xc3\xa4", 2), "text/plain; charset=utf-8");
}

static void check_name(const char *name, const char *want)
{
        AUTO_BUF struct buf b = BUF_INIT(1024);

        CHECK_INT(content_disposition(str_of(name), &b), ==, 0);
        CHECK_STR(buf_cstr(&b), want);
}

static void quotes_names_where_it_must(void)
{
        check_name("a.txt", "inline; filename=a.txt");
        check_name("a b", "inline; filename=\"a b\"");
        check_name("a\"b", "inline; filename=\"a\\\"b\"");
        check_name("\xc3\xa4%'", "inline; filename*=utf-8''%C3%A4%25%27");
        check_name("a\nb", "inline; filename*=utf-8''a%0Ab"); /* never a line end in a header */
        check_name("", "inline; filename=\"\"");
}

static void dates_go_both_ways(void)
{
        char text[HTTP_DATE_MAX];
        time_t t = 0;

        http_date_format(1767323045, text);
        CHECK_STR(text, "Fri, 02 Jan 2026 03:04:05 GMT");
        CHECK_INT(http_date_parse(str_of(text), &t), ==, 0);
        CHECK_INT(t, ==, 1767323045);
        CHECK_INT(http_date_parse(STR(""), &t), ==, -EINVAL);
        CHECK_INT(http_date_parse(STR("Fri, 02 Jan 2026 03:04:05 CET"), &t), ==, -EINVAL);
        CHECK_INT(http_date_parse(STR("Fri, 02 Jan 2026 03:04:05 GMT and more of it"), &t), ==, -EINVAL);
}

static void ranges(void)
{
        struct byte_range r[BYTE_RANGES_MAX];

        CHECK_INT(byte_ranges_parse(STR(""), 10, r), ==, 0);
        CHECK_INT(byte_ranges_parse(STR("bytes=0-0"), 10, r), ==, 1);
        CHECK_INT(r[0].length, ==, 1);
        CHECK_INT(byte_ranges_parse(STR("bytes=-20"), 10, r), ==, 1);
        CHECK_INT(r[0].length, ==, 10);
        CHECK_INT(byte_ranges_parse(STR("bytes= 1-2 , 4- "), 10, r), ==, 2);
        CHECK_INT(r[1].from, ==, 4);
        CHECK_INT(r[1].length, ==, 6);
        CHECK_INT(byte_ranges_parse(STR("bytes=1-2,50-"), 10, r), ==, 1);
        CHECK_INT(byte_ranges_parse(STR("bytes=10-"), 10, r), ==, -ERANGE);
        CHECK_INT(byte_ranges_parse(STR("bytes=-0"), 10, r), ==, -ERANGE);
        CHECK_INT(byte_ranges_parse(STR("bytes=0-9,0-9"), 10, r), ==, 0);
        CHECK_INT(byte_ranges_parse(STR("bytes=0-18446744073709551615"), 10, r), ==, 1);
        CHECK_INT(r[0].length, ==, 10);
}

static void refuses_bad_ranges(void)
{
        static const char *const bad[] = {"bytes",
                                          "bytes=x",
                                          "bytes=1",
                                          "bytes=2-1",
                                          "items=0-1",
                                          "bytes=--1",
                                          "bytes=0-99999999999999999999",
                                          "bytes=+1-2"};
        struct byte_range r[BYTE_RANGES_MAX];

        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                CHECK_INT(byte_ranges_parse(str_of(bad[i]), 10, r), ==, -EINVAL);
}

static void codings_are_chosen_by_quality(void)
{
        static const struct {
                const char *value;
                enum accept_encoding want;
        } cases[] = {{"", ACCEPT_IDENTITY},
                     {"gzip", ACCEPT_GZIP},
                     {"gzip;q=0.001", ACCEPT_GZIP},
                     {"gzip, deflate", ACCEPT_IDENTITY},
                     {"gzip, deflate;q=0", ACCEPT_GZIP},
                     {"gzip;q=0.3, identity;q=0.4", ACCEPT_IDENTITY},
                     {"identity;q=0.3,gzip;q=0.4", ACCEPT_GZIP},
                     {"gzip, identity;q=0", ACCEPT_GZIP_ONLY},
                     {"gzip;level=1;q=0, identity;q=0", ACCEPT_NOTHING_KNOWN},
                     {"gzip, *;q=0", ACCEPT_GZIP_ONLY},
                     {"*", ACCEPT_IDENTITY},
                     {"*, identity;q=0", ACCEPT_GZIP_ONLY},
                     {"identity;q=0", ACCEPT_NOTHING_KNOWN},
                     {"gzip;q=rubbish", ACCEPT_GZIP},
                     {"gzip;q=", ACCEPT_GZIP},
                     {";;,,==;q", ACCEPT_IDENTITY}};

        for (size_t i = 0; i < ARRAY_LEN(cases); i++)
                CHECK_INT(accept_encoding_choose(str_of(cases[i].value)), ==, cases[i].want);
}

/* Pack n bytes given in pieces of that size, unpack, compare. */
static void check_packing(const char *bytes, size_t n, size_t piece)
{
        AUTO_BUF struct buf packed = BUF_INIT(1u << 20), plain = BUF_INIT(1u << 20);
        struct gzip *g = gzip_create();
        struct gunzip *u = gunzip_create();
        struct str in, out;

        for (size_t at = 0; at <= n; at += piece) {
                in = (struct str){bytes + at, n - at < piece ? n - at : piece};
                while (gzip_next(g, &in, n - at < piece, &out) > 0)
                        (void)buf_add(&packed, out.p, out.n);
        }
        in = (struct str){(const char *)buf_at(&packed), packed.len};
        while (gunzip_next(u, &in, &out) > 0)
                (void)buf_add(&plain, out.p, out.n);
        CHECK(gunzip_is_done(u));
        CHECK_INT(plain.len, ==, n);
        CHECK(n == 0 || memcmp(buf_at(&plain), bytes, n) == 0);
        gzip_free(g);
        gunzip_free(u);
}

static void what_is_packed_unpacks(void)
{
        static char bytes[200000];

        check_packing("", 0, 7);
        check_packing("words", 5, 1);
        check_packing(bytes, sizeof(bytes), 4096);
        check_packing(bytes, sizeof(bytes), sizeof(bytes) + 1);
        random_bytes(bytes, sizeof(bytes));
        check_packing(bytes, sizeof(bytes), 65536);
}

int main(void)
{
        RUN(codings_are_chosen_by_quality);
        RUN(what_is_packed_unpacks);
        RUN(knows_types_by_name_and_by_bytes);
        RUN(quotes_names_where_it_must);
        RUN(dates_go_both_ways);
        RUN(ranges);
        RUN(refuses_bad_ranges);
        return tap_done();
}
