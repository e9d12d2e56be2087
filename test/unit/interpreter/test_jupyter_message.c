#include "interpreter/jupyter/message.h"

#include <errno.h>

#include "base/auto.h"
#include "interpreter/jupyter/json_text.h"
#include "tap.h"
#include "wire/sha256.h"

static const char *copied(const char *text, struct buf *out)
{
        buf_reset(out);
        return json_text_copy(str_of(text), out) < 0 ? NULL : buf_cstr(out);
}

static void values_are_copied_without_blanks(void)
{
        AUTO_BUF struct buf out = BUF_INIT(4096);

        CHECK_STR(copied(" { \"a\" : [ 1 , -2.50e+3 , true , null ] } ", &out), "{\"a\":[1,-2.50e+3,true,null]}");
        CHECK_STR(copied("[]", &out), "[]");
        CHECK_STR(copied("{}", &out), "{}");
        CHECK_STR(copied("\"\\u00e4\\n\\/\"", &out), "\"\\u00e4\\n\\/\"");
        CHECK_STR(copied("123456789012345678901234567890", &out), "123456789012345678901234567890");
}

static void what_json_does_not_know_is_null(void)
{
        AUTO_BUF struct buf out = BUF_INIT(4096);

        CHECK_STR(copied("[NaN,Infinity,-Infinity]", &out), "[null,null,null]");
}

static void text_is_ascii_and_valid(void)
{
        AUTO_BUF struct buf out = BUF_INIT(4096);

        CHECK_STR(copied("\"\xc3\xa4\xf0\x9f\x98\x80\"", &out), "\"\\u00e4\\ud83d\\ude00\"");
        CHECK_STR(copied("\"\xff\xc0\xaf\xed\xa0\x80\xe2\x82\"", &out),
                  "\"\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\"");
        CHECK_STR(copied("\"\xf4\x90\x80\x80\"", &out), "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
        CHECK_STR(copied("\"\\ud83d\\ude00 \\ud83d \\ude00 \\ud83d\\u0041\"", &out),
                  "\"\\ud83d\\ude00 \\ufffd \\ufffd \\ufffd\\u0041\"");
        CHECK_STR(copied("\"a\tb\x01\"", &out), "\"a\\u0009b\\u0001\"");
        CHECK_STR(copied("\"12345678\x1f"
                         "12345678\xc3\xbc"
                         "12345678\\\"12345678\"",
                         &out),
                  "\"12345678\\u001f12345678\\u00fc12345678\\\"12345678\"");
}

static void malformed_values_are_refused(void)
{
        static const char *const bad[] = {
                "",    "{",     "[1,]", "{\"a\"}", "{\"a\":}", "{a:1}", "\"a", "01", "1.", "-",          "1e",  "+1",
                "tru", "[1 2]", "{}{}", "\"\\x\"", "\"\\u12",  "nan",   "--1", "[",  "]",  "{\"a\":1,}", "'a'", "1 x"};
        AUTO_BUF struct buf out = BUF_INIT(4096);

        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                if (json_text_copy(str_of(bad[i]), &out) != -EINVAL) {
                        printf("# %s\n", bad[i]);
                        CHECK(false);
                }
}

static void depth_is_bounded(void)
{
        char text[2 * JSON_TEXT_DEPTH_MAX + 3];
        AUTO_BUF struct buf out = BUF_INIT(4096);

        memset(text, '[', JSON_TEXT_DEPTH_MAX);
        memset(text + JSON_TEXT_DEPTH_MAX, ']', JSON_TEXT_DEPTH_MAX);
        CHECK_INT(json_text_copy((struct str){text, 2 * JSON_TEXT_DEPTH_MAX}, &out), ==, 0);
        memset(text, '[', JSON_TEXT_DEPTH_MAX + 1);
        memset(text + JSON_TEXT_DEPTH_MAX + 1, ']', JSON_TEXT_DEPTH_MAX + 1);
        CHECK_INT(json_text_copy((struct str){text, 2 * JSON_TEXT_DEPTH_MAX + 2}, &out), ==, -ELOOP);
        CHECK(json_text_is_valid((struct str){text, 2 * JSON_TEXT_DEPTH_MAX + 2}));
        CHECK(!json_text_is_valid((struct str){text, 2 * JSON_TEXT_DEPTH_MAX + 1}));
}

static void members_are_found(void)
{
        struct str o = STR(" {\"a\" : {\"b\":\"no\"}, \"b\" : \"yes\" , \"n\": 7, \"m\": -1, \"b\":\"later\"}");

        CHECK(str_is(json_text_get(o, "a"), "{\"b\":\"no\"}"));
        CHECK(str_is(json_text_get_raw(o, "b"), "yes"));
        CHECK_INT(json_text_get_int(o, "n"), ==, 7);
        CHECK_INT(json_text_get_int(o, "m"), ==, -1);
        CHECK_INT(json_text_get_int(o, "x"), ==, -1);
        CHECK_INT(json_text_get(o, "x").n, ==, 0);
        CHECK_INT(json_text_get(STR("[1]"), "x").n, ==, 0);
        CHECK_INT(json_text_get_raw(o, "a").n, ==, 0);
}

static void text_is_quoted(void)
{
        AUTO_BUF struct buf out = BUF_INIT(4096);

        CHECK_INT(json_text_quote((struct str){"a\"\\\n\0\xc3\xa4\xff", 8}, &out), ==, 0);
        CHECK_STR(buf_cstr(&out), "\"a\\\"\\\\\\n\\u0000\\u00e4\\ufffd\"");
}

/* ---- messages ---- */

#define KEY "a secret"

struct frames {
        struct str at[10];
        size_t n;
        char signature[SHA256_HEX_LEN + 1];
};

static void frames_sign(struct frames *f, size_t first)
{
        AUTO_BUF struct buf all = BUF_INIT(65536);
        uint8_t mac[SHA256_LEN];

        for (size_t i = first; i < first + 4; i++)
                (void)buf_add(&all, f->at[i].p, f->at[i].n);
        hmac_sha256(STR(KEY), buf_at(&all), all.len, mac);
        hex_encode(mac, sizeof(mac), f->signature);
        f->at[first - 1] = str_of(f->signature);
}

static struct frames an_output(void)
{
        return (struct frames){.at = {STR("topic"),
                                      STR("<IDS|MSG>"),
                                      {0},
                                      STR("{\"msg_id\":\"1\",\"msg_type\":\"stream\",\"date\":\"d\"}"),
                                      STR("{\"msg_id\":\"parent\"}"),
                                      STR("{}"),
                                      STR("{\"name\":\"stdout\"}"),
                                      STR("buffer")},
                               .n = 8};
}

static void a_signed_message_is_read(void)
{
        struct frames f = an_output();
        struct jupyter_message m;

        frames_sign(&f, 3);
        CHECK_INT(jupyter_decode(f.at, f.n, STR(KEY), &m), ==, 0);
        CHECK(str_is(m.type, "stream") && str_is(m.parent_id, "parent") && str_is(m.date, "d"));
        CHECK(str_is(m.content, "{\"name\":\"stdout\"}"));
        CHECK_INT(jupyter_decode(f.at, 7, STR(KEY), &m), ==, 0); /* without buffers */
}

static void a_wrong_signature_is_refused(void)
{
        struct frames f = an_output();
        struct jupyter_message m;

        frames_sign(&f, 3);
        CHECK_INT(jupyter_decode(f.at, f.n, STR("another"), &m), ==, -EACCES);
        f.at[6] = STR("{\"name\":\"stderr\"}");
        CHECK_INT(jupyter_decode(f.at, f.n, STR(KEY), &m), ==, -EACCES);
        f.at[2] = STR("");
        CHECK_INT(jupyter_decode(f.at, f.n, STR(KEY), &m), ==, -EACCES);
}

static void what_is_no_message_is_refused(void)
{
        struct frames f = an_output();
        struct jupyter_message m;

        CHECK_INT(jupyter_decode(f.at, 0, STR(KEY), &m), ==, -EBADMSG);
        CHECK_INT(jupyter_decode(f.at, 6, STR(KEY), &m), ==, -EBADMSG);
        f.at[6] = STR("[1]");
        frames_sign(&f, 3);
        CHECK_INT(jupyter_decode(f.at, f.n, STR(KEY), &m), ==, -EBADMSG);
        f = an_output();
        f.at[3] = STR("{}");
        frames_sign(&f, 3);
        CHECK_INT(jupyter_decode(f.at, f.n, STR(KEY), &m), ==, -EBADMSG);
        f = an_output();
        f.at[1] = STR("<ids|msg>");
        frames_sign(&f, 3);
        CHECK_INT(jupyter_decode(f.at, f.n, STR(KEY), &m), ==, -EBADMSG);
}

static void what_is_sent_can_be_read(void)
{
        struct jupyter_frames sent;
        struct jupyter_message m;
        AUTO_BUF struct buf content = BUF_INIT(65536);

        CHECK_INT(jupyter_execute_content(STR("print('\xc3\xa4')\n"), false, &content), ==, 0);
        CHECK_STR(buf_cstr(&content), "{\"code\":\"print('\\u00e4')\\n\",\"silent\":false,\"store_history\":true,"
                                      "\"user_expressions\":{},\"allow_stdin\":false,\"stop_on_error\":false}");
        CHECK_INT(jupyter_encode(&(struct jupyter_request){.type = "execute_request",
                                                           .id = "i",
                                                           .session = "s",
                                                           .content = {(char *)buf_at(&content), content.len}},
                                 STR(KEY), &sent),
                  ==, 0);
        CHECK_INT(jupyter_decode(sent.at, JUPYTER_FRAMES_SENT, STR(KEY), &m), ==, 0);
        CHECK(str_is(m.type, "execute_request") && m.parent_id.n == 0);
        CHECK(str_is(json_text_get_raw(sent.at[2], "msg_id"), "i"));
        CHECK(str_is(json_text_get_raw(sent.at[2], "session"), "s"));
        CHECK(str_is(json_text_get_raw(sent.at[2], "version"), JUPYTER_PROTOCOL));
        jupyter_frames_done(&sent);
}

static void our_own_statements_leave_no_history(void)
{
        AUTO_BUF struct buf content = BUF_INIT(65536);

        CHECK_INT(jupyter_execute_content(STR(""), true, &content), ==, 0);
        CHECK(str_is(json_text_get((struct str){(char *)buf_at(&content), content.len}, "silent"), "true"));
        CHECK(str_is(json_text_get((struct str){(char *)buf_at(&content), content.len}, "store_history"), "false"));
}

int main(void)
{
        RUN(values_are_copied_without_blanks);
        RUN(what_json_does_not_know_is_null);
        RUN(text_is_ascii_and_valid);
        RUN(malformed_values_are_refused);
        RUN(depth_is_bounded);
        RUN(members_are_found);
        RUN(text_is_quoted);
        RUN(a_signed_message_is_read);
        RUN(a_wrong_signature_is_refused);
        RUN(what_is_no_message_is_refused);
        RUN(what_is_sent_can_be_read);
        RUN(our_own_statements_leave_no_history);
        return tap_done();
}
