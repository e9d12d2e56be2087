/* JSON-RPC messages of MCP: what is taken, what is refused, what is sent; revisions of the protocol. */
#include "base/buf.h"
#include "base/err.h"
#include "mcp/protocol/jsonrpc.h"
#include "mcp/protocol/versions.h"
#include "test/lib/tap.h"

static struct err err;

static int decode(const char *text, struct jsonrpc_message *ret, json_t **ret_value)
{
        json_t *value = jsonrpc_parse(str_of(text), &err);

        *ret_value = value;
        return value ? jsonrpc_decode(value, ret, &err) : -1;
}

static void knows_the_three_kinds(void)
{
        struct jsonrpc_message msg;
        json_t *value;

        CHECK_INT(decode("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"a\":1}}", &msg, &value), ==,
                  0);
        CHECK_INT(msg.kind, ==, JSONRPC_REQUEST);
        CHECK_STR(msg.method, "ping");
        CHECK_INT(json_integer_value(msg.id), ==, 1);
        CHECK_INT(json_object_size(msg.params), ==, 1);
        json_decref(value);
        CHECK_INT(decode("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}", &msg, &value), ==, 0);
        CHECK_INT(msg.kind, ==, JSONRPC_NOTIFICATION);
        CHECK(!msg.params && !msg.id);
        json_decref(value);
        CHECK_INT(decode("{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":{}}", &msg, &value), ==, 0);
        CHECK_INT(msg.kind, ==, JSONRPC_RESPONSE);
        json_decref(value);
}

static void refuses_what_is_no_message(void)
{
        static const char *const bad[] = {
                "[]",
                "{}",
                "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}",
                "{\"jsonrpc\":2.0,\"id\":1,\"method\":\"ping\"}",
                "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}",
                "{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}",
                "{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}",
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}",
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":[1]}",
                "{\"jsonrpc\":\"2.0\",\"id\":1}",
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{},\"error\":{}}",
        };

        for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
                struct jsonrpc_message msg;
                json_t *value = NULL;

                err = (struct err){0};
                CHECK_INT(decode(bad[i], &msg, &value), <, 0);
                CHECK(err.msg[0]);
                json_decref(value);
        }
}

static void refuses_what_is_no_json(void)
{
        static const char *const bad[] = {"", "{", "nul", "{\"a\":1,\"a\":2}", "{\"a\":\"\xff\"}", "\"text\"", "{} {}"};
        char deep[300];

        for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
                CHECK(!jsonrpc_parse(str_of(bad[i]), &err));
        memset(deep, '[', sizeof(deep));
        deep[sizeof(deep) - 1] = '\0';
        CHECK(!jsonrpc_parse(str_of(deep), &err));
        CHECK(strstr(err.msg, "nested"));
}

static void brackets_in_texts_do_not_count_as_depth(void)
{
        char text[400] = "{\"a\":\"";
        json_t *value;

        memset(text + 6, '[', 300);
        memcpy(text + 306, "\\\"[\"}", 6);
        value = jsonrpc_parse(str_of(text), &err);
        CHECK(value);
        json_decref(value);
}

static void an_unusable_id_is_not_given_back(void)
{
        struct jsonrpc_message msg;
        json_t *value, *answer;
        char *text;

        CHECK_INT(decode("{\"jsonrpc\":\"2.0\",\"id\":[1],\"method\":\"ping\"}", &msg, &value), <, 0);
        CHECK(!msg.id);
        answer = jsonrpc_error(msg.id, JSONRPC_INVALID_REQUEST, "caf\xe9");
        text = json_dumps(answer, JSON_COMPACT);
        CHECK_STR(text, "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600,\"message\":\"caf?\"}}");
        free(text);
        json_decref(answer);
        json_decref(value);
}

static void results_without_memory_are_no_messages(void)
{
        json_t *id = json_integer(1);

        CHECK(!jsonrpc_result(id, NULL));
        json_decref(id);
}

static void revisions_are_negotiated(void)
{
        CHECK_STR(protocol_choose(STR("2024-11-05")), "2024-11-05");
        CHECK_STR(protocol_choose(STR("2025-06-18")), "2025-06-18");
        CHECK_STR(protocol_choose(STR("1999-01-01")), PROTOCOL_NEWEST);
        CHECK(!protocol_find(STR("1999-01-01")));
        CHECK(protocol_has_batches(protocol_find(STR("2025-03-26"))));
        CHECK(!protocol_has_batches(protocol_find(STR("2025-06-18"))));
}

/* "0," is two bytes, and a value in memory many more. */
static void a_message_of_too_many_values_is_refused(void)
{
        AUTO_BUF struct buf text = BUF_INIT(4 * JSONRPC_VALUES_MAX);
        json_t *value;

        (void)buf_addc(&text, "[0");
        for (size_t i = 2; i < JSONRPC_VALUES_MAX; i++)
                (void)buf_addc(&text, ",0");
        (void)buf_addc(&text, "]");
        value = jsonrpc_parse(str_of(buf_cstr(&text)), &err);
        CHECK(value != NULL);
        json_decref(value);
        buf_reset(&text);
        (void)buf_addc(&text, "[0");
        for (size_t i = 0; i < JSONRPC_VALUES_MAX; i++)
                (void)buf_addc(&text, ",0");
        (void)buf_addc(&text, "]");
        CHECK(!jsonrpc_parse(str_of(buf_cstr(&text)), &err));
        CHECK(strstr(err.msg, "more than 200000 values") != NULL);
}

int main(void)
{
        RUN(knows_the_three_kinds);
        RUN(refuses_what_is_no_message);
        RUN(refuses_what_is_no_json);
        RUN(a_message_of_too_many_values_is_refused);
        RUN(brackets_in_texts_do_not_count_as_depth);
        RUN(an_unusable_id_is_not_given_back);
        RUN(results_without_memory_are_no_messages);
        RUN(revisions_are_negotiated);
        return tap_done();
}
