/* Entries, metadata, fields of messages, texts of failures. */
#include <errno.h>
#include <sys/stat.h>

#include "envd/files/file_entry.h"
#include "envd/files/file_metadata.h"
#include "envd/rpc/fault.h"
#include "envd/rpc/field.h"
#include "tap.h"

static void check_mode(mode_t mode, const char *want)
{
        char out[FILE_ENTRY_MODE_MAX];

        file_entry_mode_text(mode, out);
        CHECK_STR(out, want);
}

static void modes_read_as_clients_expect(void)
{
        check_mode(S_IFREG | 0644, "-rw-r--r--");
        check_mode(S_IFDIR | 0755, "drwxr-xr-x");
        check_mode(S_IFLNK | 0777, "Lrwxrwxrwx");
        check_mode(S_IFDIR | 01777, "dtrwxrwxrwx");
        check_mode(S_IFREG | 04755, "urwxr-xr-x");
        check_mode(S_IFREG | 02755, "grwxr-xr-x");
        check_mode(S_IFREG | 07000, "ugt---------");
        check_mode(S_IFCHR | 0666, "Dcrw-rw-rw-");
        check_mode(S_IFBLK | 0660, "Drw-rw----");
        check_mode(S_IFIFO | 0600, "prw-------");
        check_mode(S_IFSOCK | 0600, "Srw-------");
}

static void times_have_0_3_6_or_9_digits(void)
{
        static const struct {
                long ns;
                const char *text;
        } cases[] = {{0, "2026-01-02T03:04:05Z"},
                     {120000000, "2026-01-02T03:04:05.120Z"},
                     {123456000, "2026-01-02T03:04:05.123456Z"},
                     {123456789, "2026-01-02T03:04:05.123456789Z"},
                     {1, "2026-01-02T03:04:05.000000001Z"}};
        char out[FILE_ENTRY_TIME_MAX];

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                file_entry_time_text((struct timespec){1767323045, cases[i].ns}, out);
                CHECK_STR(out, cases[i].text);
        }
}

static void broken_utf8_becomes_replacement_characters(void)
{
        json_t *s = json_text((struct str){"a\xff\xc3\xa4\xe2\x82", 6});

        CHECK_STR(json_string_value(s), "a\xef\xbf\xbd\xc3\xa4\xef\xbf\xbd\xef\xbf\xbd");
        json_decref(s);
        s = json_text(STR("pl\xc3\xa4in"));
        CHECK_STR(json_string_value(s), "pl\xc3\xa4in");
        json_decref(s);
}

static void system_errors_begin_small(void)
{
        AUTO_FAULT struct fault f = {0};

        CHECK_STR(errno_text(ENOENT), "no such file or directory");
        CHECK_STR(errno_text(EPIPE), "broken pipe");
        CHECK_STR(errno_text(99999), "errno 99999");
        CHECK_INT(fault_sys(&f, CONNECT_INTERNAL, EACCES, "open %s", "/x"), ==, -1);
        CHECK_STR(f.text, "open /x: permission denied");
        CHECK_INT(f.sys, ==, EACCES);
}

static void fields_have_two_names_and_loose_numbers(void)
{
        AUTO_FAULT struct fault f = {0};
        json_t *o = json_pack("{s:b, s:s, s:f, s:n, s:s}", "include_entry", 1, "a", "12", "b", 3.0, "c", "d", "x");
        bool flag = false;
        uint32_t n = 0;
        const char *text = "kept?";

        CHECK_INT(field_bool(o, "includeEntry", &flag, &f), ==, 0);
        CHECK(flag);
        CHECK_INT(field_u32(o, "a", &n, &f), ==, 0);
        CHECK_INT(n, ==, 12);
        CHECK_INT(field_u32(o, "b", &n, &f), ==, 0);
        CHECK_INT(n, ==, 3);
        CHECK_INT(field_text(o, "c", &text, &f), ==, 0);
        CHECK(!text);
        CHECK_INT(field_u32(o, "d", &n, &f), ==, -1);
        CHECK_STR(f.text, "unmarshal message: field d: a number of 32 bits expected");
        json_decref(o);
}

static void numbers_out_of_range_are_refused(void)
{
        static const char *const bad[] = {"{\"n\":-1}",   "{\"n\":4294967296}", "{\"n\":1.5}",  "{\"n\":\"-1\"}",
                                          "{\"n\":\"\"}", "{\"n\":true}",       "{\"n\":1e300}"};

        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                AUTO_FAULT struct fault f = {0};
                json_t *o = json_loads(bad[i], 0, NULL);
                uint32_t n = 7;

                CHECK_INT(field_u32(o, "n", &n, &f), ==, -1);
                CHECK_INT(n, ==, 7);
                json_decref(o);
        }
}

static void parse_head(struct http1_head *h, const char *text)
{
        size_t used;

        memset(h, 0, sizeof(*h));
        (void)http1_parse_request(h, text, strlen(text), &used);
}

static void metadata_comes_from_headers(void)
{
        static struct http1_head h;
        AUTO_FAULT struct fault f = {0};
        json_t *got = NULL;

        parse_head(&h, "POST / HTTP/1.1\r\nHost: x\r\nX-Metadata-Author: me\r\nx-metadata-AUTHOR: later\r\n"
                       "X-Metadata-b: \r\nX-Other: y\r\n\r\n");
        CHECK_INT(file_metadata_from_headers(&h, &got, &f), ==, 0);
        CHECK_INT(json_object_size(got), ==, 2);
        CHECK_STR(json_string_value(json_object_get(got, "author")), "me");
        CHECK_STR(json_string_value(json_object_get(got, "b")), "");
        json_decref(got);
        parse_head(&h, "POST / HTTP/1.1\r\nHost: x\r\n\r\n");
        CHECK_INT(file_metadata_from_headers(&h, &got, &f), ==, 0);
        CHECK(!got);
        parse_head(&h, "POST / HTTP/1.1\r\nHost: x\r\nX-Metadata-: v\r\n\r\n");
        CHECK_INT(file_metadata_from_headers(&h, &got, &f), ==, -1);
        CHECK(strncmp(f.text, "invalid metadata: ", 18) == 0);
}

int main(void)
{
        RUN(modes_read_as_clients_expect);
        RUN(times_have_0_3_6_or_9_digits);
        RUN(broken_utf8_becomes_replacement_characters);
        RUN(system_errors_begin_small);
        RUN(fields_have_two_names_and_loose_numbers);
        RUN(numbers_out_of_range_are_refused);
        RUN(metadata_comes_from_headers);
        return tap_done();
}
