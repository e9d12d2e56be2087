#include "model/err_json.h"

#include <errno.h>
#include <string.h>
#include <tap.h>

#include "base/err.h"

static void every_kind_arrives_as_it_left(void)
{
        for (int kind = ERR_NONE + 1; kind <= ERR_INTERNAL; kind++) {
                struct err sent = {.kind = (enum err_kind)kind, .sys = EIO, .msg = "disk 'a' failed"}, got = {0};
                json_t *obj = err_encode(&sent);

                CHECK(obj);
                CHECK_INT(err_decode(obj, "unsaid", &got), ==, err_set(NULL, sent.kind, "x"));
                CHECK_INT(got.kind, ==, kind);
                CHECK_INT(got.sys, ==, 0);
                CHECK_STR(got.msg, "disk 'a' failed");
                json_decref(obj);
        }
}

static void the_object_has_a_kind_and_a_message(void)
{
        json_t *obj = err_encode(&(struct err){.kind = ERR_NOT_FOUND, .msg = "no such sandbox"});
        json_t *want = json_pack("{s:s,s:s}", "kind", "not_found", "message", "no such sandbox");

        CHECK(json_equal(obj, want));
        json_decref(obj);
        json_decref(want);
}

static void a_message_that_is_not_utf8_is_sent_without_those_bytes(void)
{
        json_t *obj = err_encode(&(struct err){.kind = ERR_INVALID, .msg = "open 'caf\xc3"});

        CHECK_STR(json_string_value(json_object_get(obj, "message")), "open 'caf?");
        json_decref(obj);
        obj = err_encode(&(struct err){.kind = ERR_INVALID, .msg = "open 'caf\xc3\xa9'"});
        CHECK_STR(json_string_value(json_object_get(obj, "message")), "open 'caf\xc3\xa9'");
        json_decref(obj);
}

static void check_decoded(const char *text, enum err_kind kind, const char *msg)
{
        json_t *obj = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
        struct err err = {0};

        CHECK(!text || obj);
        CHECK_INT(err_decode(obj, "no reason was given", &err), <, 0);
        CHECK_INT(err.kind, ==, kind);
        CHECK_STR(err.msg, msg);
        json_decref(obj);
}

static void whatever_comes_is_an_error(void)
{
        check_decoded(NULL, ERR_INTERNAL, "no reason was given");
        check_decoded("{}", ERR_INTERNAL, "no reason was given");
        check_decoded("[\"kind\"]", ERR_INTERNAL, "no reason was given");
        check_decoded("{\"kind\":\"none\",\"message\":\"all is well\"}", ERR_INTERNAL, "all is well");
        check_decoded("{\"kind\":\"of another version\",\"message\":\"odd\"}", ERR_INTERNAL, "odd");
        check_decoded("{\"kind\":7,\"message\":8}", ERR_INTERNAL, "no reason was given");
        check_decoded("{\"kind\":\"gone\"}", ERR_GONE, "no reason was given");
}

static void a_message_that_is_too_long_is_cut_visibly(void)
{
        char text[1000];
        json_t *obj;
        struct err err = {0};

        memset(text, 'x', sizeof(text) - 1);
        text[sizeof(text) - 1] = 0;
        obj = json_pack("{s:s,s:s}", "kind", "limit", "message", text);
        CHECK_INT(err_decode(obj, "unsaid", &err), <, 0);
        CHECK_INT(strlen(err.msg), ==, sizeof(err.msg) - 1);
        CHECK_STR(err.msg + sizeof(err.msg) - 4, "...");
        json_decref(obj);
}

int main(void)
{
        RUN(every_kind_arrives_as_it_left);
        RUN(the_object_has_a_kind_and_a_message);
        RUN(a_message_that_is_not_utf8_is_sent_without_those_bytes);
        RUN(whatever_comes_is_an_error);
        RUN(a_message_that_is_too_long_is_cut_visibly);
        return tap_done();
}
