#include "interpreter/jupyter/output.h"

#include <errno.h>

#include "base/auto.h"
#include "interpreter/jupyter/json_text.h"
#include "interpreter/jupyter/message.h"
#include "tap.h"

/* The line that a message becomes; "": none; NULL: refused. */
static const char *line_of(struct buf *out, const char *type, const char *content)
{
        struct jupyter_message m = {
                .type = str_of(type), .content = str_of(content), .date = STR("2026-02-03T04:05:06.123456Z")};
        int r;

        buf_reset(out);
        r = output_add_message(&m, out);
        return r < 0 ? NULL : buf_cstr(out);
}

static void printed_text_has_its_time(void)
{
        AUTO_BUF struct buf out = BUF_INIT(65536);

        CHECK_STR(
                line_of(&out, "stream", "{\"name\": \"stdout\", \"text\": \"h\xc3\xa4\\n\"}"),
                "{\"type\":\"stdout\",\"text\":\"h\\u00e4\\n\",\"timestamp\":\"2026-02-03T04:05:06.123456+00:00\"}\n");
        CHECK_STR(line_of(&out, "stream", "{\"text\": \"e\", \"name\": \"stderr\"}"),
                  "{\"type\":\"stderr\",\"text\":\"e\",\"timestamp\":\"2026-02-03T04:05:06.123456+00:00\"}\n");
        CHECK_STR(line_of(&out, "stream", "{\"name\":\"stdout\",\"text\":\"\"}"), "");
}

static void a_time_of_another_zone_is_converted(void)
{
        AUTO_BUF struct buf out = BUF_INIT(65536);
        struct jupyter_message m = {.type = STR("stream"),
                                    .content = STR("{\"name\":\"stdout\",\"text\":\"x\"}"),
                                    .date = STR("2026-02-03T06:05:06.5+02:00")};

        CHECK_INT(output_add_message(&m, &out), ==, 1);
        CHECK(strstr(buf_cstr(&out), "\"timestamp\":\"2026-02-03T04:05:06.500000+00:00\""));
        m.date = STR("yesterday"); /* then it is now */
        buf_reset(&out);
        CHECK_INT(output_add_message(&m, &out), ==, 1);
        CHECK(strstr(buf_cstr(&out), "\"timestamp\":\"2"));
}

static void results_say_whether_they_are_the_value(void)
{
        AUTO_BUF struct buf out = BUF_INIT(65536);

        CHECK_STR(line_of(&out, "execute_result", "{\"data\":{\"text/plain\":\"1\"}}"),
                  "{\"type\":\"result\",\"text\":\"1\",\"extra\":{},\"is_main_result\":true}\n");
        CHECK_STR(line_of(&out, "display_data", "{\"data\":{}}"),
                  "{\"type\":\"result\",\"extra\":{},\"is_main_result\":false}\n");
}

static void formats_have_fields(void)
{
        AUTO_BUF struct buf out = BUF_INIT(65536);

        CHECK_STR(line_of(&out, "display_data",
                          "{\"data\":{\"image/png\":\"AA==\",\"x/y\":{\"a\":NaN},\"text/html\":null,\"e2b/"
                          "chart\":{\"t\":1.0}}}"),
                  "{\"type\":\"result\",\"png\":\"AA==\",\"chart\":{\"t\":1.0},\"extra\":{\"x/y\":{\"a\":null}},"
                  "\"is_main_result\":false}\n");
}

static void one_pair_of_quotes_is_cut(void)
{
        static const struct {
                const char *plain, *text;
        } rows[] = {{"'a'", "a"},
                    {"\\\"a\\\"", "a"},
                    {"''", ""},
                    {"\\\"\\\"", ""},
                    {"'", "'"},
                    {"\\\"", "\\\""},
                    {"'a\\\"", "'a\\\""},
                    {"a'", "a'"},
                    {"", ""},
                    {"\\u0027x\\u0027", "x"},
                    {"\\u0022x\\u0022", "x"},
                    {"'x\\u0027", "x"},
                    {"\\u0022x\\\"", "x"},
                    {"\\u0027", "\\u0027"},
                    {"'x\\\\u0027", "'x\\\\u0027"}, /* a backslash and "u0027" */
                    {"'x\\\\\\u0027", "x\\\\"},
                    {"'x\\\\'", "x\\\\"},
                    {"\\\"x\\\\\\\"", "x\\\\"},
                    {"\\u0022x\\u0027", "\\u0022x\\u0027"}};
        AUTO_BUF struct buf out = BUF_INIT(65536);

        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                char content[200], wanted[200];

                (void)snprintf(content, sizeof(content), "{\"data\":{\"text/plain\":\"%s\"}}", rows[i].plain);
                (void)snprintf(wanted, sizeof(wanted),
                               "{\"type\":\"result\",\"text\":\"%s\",\"extra\":{},\"is_main_result\":true}\n",
                               rows[i].text);
                CHECK_STR(line_of(&out, "execute_result", content), wanted);
        }
}

static const char *nested(size_t depth, struct buf *out)
{
        buf_reset(out);
        for (size_t i = 0; i < 2 * depth; i++)
                (void)buf_add(out, i < depth ? "[" : "]", 1);
        return buf_cstr(out);
}

static void only_a_format_that_is_too_deep_is_left_out(void)
{
        AUTO_BUF struct buf out = BUF_INIT(65536), content = BUF_INIT(65536), value = BUF_INIT(65536);
        struct str wanted = STR("{\"type\":\"result\",\"text\":\"t\",\"html\":\"h\",\"extra\":{\"x/z\":1},"
                                "\"is_main_result\":true}\n");

        CHECK(nested(5000, &value));
        CHECK_INT(buf_addf(&content,
                           "{\"data\":{\"text/plain\":\"t\",\"application/json\":%s,\"x/y\":%s,\"text/html\":\"h\","
                           "\"x/z\":1}}",
                           buf_cstr(&value), buf_cstr(&value)),
                  ==, 0);
        CHECK_STR(line_of(&out, "execute_result", buf_cstr(&content)), wanted.p);
        buf_reset(&content);
        CHECK(nested(JSON_TEXT_DEPTH_MAX, &value));
        CHECK_INT(buf_addf(&content, "{\"data\":{\"application/json\":%s}}", buf_cstr(&value)), ==, 0);
        CHECK(strstr(line_of(&out, "execute_result", buf_cstr(&content)), buf_cstr(&value)));
}

static void errors_have_all_three_keys(void)
{
        AUTO_BUF struct buf out = BUF_INIT(65536);

        CHECK_STR(line_of(&out, "error", "{\"ename\":\"E\",\"evalue\":\"v\",\"traceback\":[\"a\",1,\"b\\n\"]}"),
                  "{\"type\":\"error\",\"name\":\"E\",\"value\":\"v\",\"traceback\":\"ab\\n\"}\n");
        CHECK_STR(line_of(&out, "error", "{\"ename\":null,\"evalue\":7,\"traceback\":\"t\"}"),
                  "{\"type\":\"error\",\"name\":\"\",\"value\":\"\",\"traceback\":\"t\"}\n");
        buf_reset(&out);
        CHECK_INT(output_add_error("Name", "a \"value\"", &out), ==, 0);
        CHECK_STR(buf_cstr(&out),
                  "{\"type\":\"error\",\"name\":\"Name\",\"value\":\"a \\\"value\\\"\",\"traceback\":\"\"}\n");
}

static void other_messages_have_no_line(void)
{
        AUTO_BUF struct buf out = BUF_INIT(65536);

        CHECK_STR(line_of(&out, "update_display_data", "{\"data\":{}}"), "");
        CHECK_STR(line_of(&out, "clear_output", "{}"), "");
        CHECK_STR(line_of(&out, "status", "{}"), "");
}

static void nothing_is_left_of_a_refused_message(void)
{
        AUTO_BUF struct buf out = BUF_INIT(65536);

        CHECK(!line_of(&out, "stream", "{\"name\":\"stdout\",\"text\":5}"));
        CHECK(!line_of(&out, "stream", "{\"name\":\"other\",\"text\":\"\"}"));
        CHECK(!line_of(&out, "display_data", "{\"data\":[]}"));
        CHECK_INT(out.len, ==, 0);
}

int main(void)
{
        RUN(printed_text_has_its_time);
        RUN(a_time_of_another_zone_is_converted);
        RUN(results_say_whether_they_are_the_value);
        RUN(formats_have_fields);
        RUN(one_pair_of_quotes_is_cut);
        RUN(only_a_format_that_is_too_deep_is_left_out);
        RUN(errors_have_all_three_keys);
        RUN(other_messages_have_no_line);
        RUN(nothing_is_left_of_a_refused_message);
        return tap_done();
}
