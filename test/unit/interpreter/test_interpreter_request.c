#include "interpreter/service/request.h"

#include <errno.h>

#include "base/auto.h"
#include "tap.h"

static void an_execution_is_read(void)
{
        struct execute_request e;
        json_t *detail = NULL;

        CHECK_INT(execute_request_decode(STR("{\"code\":\"a\\u0000b\",\"context_id\":\"c\",\"language\":null,"
                                             "\"env_vars\":{\"A\":\"1\"},\"x\":[]}"),
                                         &e, &detail),
                  ==, 0);
        CHECK_INT(e.code.n, ==, 3);
        CHECK_STR(e.context_id, "c");
        CHECK(!e.language && json_object_size(e.variables) == 1);
        execute_request_done(&e);
        CHECK_INT(execute_request_decode(STR("{\"code\":\"\",\"context_id\":\"\",\"language\":\"\",\"env_vars\":{}}"),
                                         &e, &detail),
                  ==, 0);
        CHECK(!e.context_id && !e.language && !e.variables && e.code.n == 0);
        execute_request_done(&e);
}

static void check_detail(const char *body, const char *wanted)
{
        struct execute_request e;
        json_t *detail = NULL;
        AUTO_FREE char *text = NULL;

        CHECK_INT(execute_request_decode(str_of(body), &e, &detail), ==, -EINVAL);
        text = json_dumps(detail, JSON_COMPACT);
        json_decref(detail);
        CHECK_STR(text, wanted);
}

static void faults_name_their_field(void)
{
        check_detail("{}", "{\"detail\":[{\"type\":\"missing\",\"loc\":[\"body\",\"code\"],\"msg\":\"Field "
                           "required\",\"input\":{}}]}");
        check_detail(
                "",
                "{\"detail\":[{\"type\":\"missing\",\"loc\":[\"body\"],\"msg\":\"Field required\",\"input\":null}]}");
        check_detail(
                "7",
                "{\"detail\":[{\"type\":\"model_attributes_type\",\"loc\":[\"body\"],\"msg\":\"Input should be a valid "
                "dictionary or object to extract fields from\",\"input\":7}]}");
        check_detail(
                "{\"code\":[],\"env_vars\":{\"A\":true}}",
                "{\"detail\":[{\"type\":\"string_type\",\"loc\":[\"body\",\"code\"],\"msg\":\"Input should be a valid "
                "string\",\"input\":[]},{\"type\":\"string_type\",\"loc\":[\"body\",\"env_vars\",\"A\"],\"msg\":"
                "\"Input should "
                "be a valid string\",\"input\":true}]}");
        check_detail("{\"code\":\"\",\"env_vars\":\"x\"}", "{\"detail\":[{\"type\":\"dict_type\",\"loc\":[\"body\","
                                                           "\"env_vars\"],\"msg\":\"Input should be a valid "
                                                           "dictionary\",\"input\":\"x\"}]}");
        check_detail("{\"code\":\"\",\"language\":\"a\\u0000b\"}",
                     "{\"detail\":[{\"type\":\"value_error\",\"loc\":[\"body\",\"language\"],\"msg\":\"Value error, a "
                     "NUL is not "
                     "allowed here\",\"input\":\"a\\u0000b\",\"ctx\":{\"error\":{}}}]}");
}

static void what_is_not_json_has_a_place(void)
{
        struct context_request c;
        json_t *detail = NULL, *fault;

        CHECK_INT(context_request_decode(STR("{\"cwd\":"), &c, &detail), ==, -EINVAL);
        fault = json_array_get(json_object_get(detail, "detail"), 0);
        CHECK_STR(json_string_value(json_object_get(fault, "type")), "json_invalid");
        CHECK(json_is_integer(json_array_get(json_object_get(fault, "loc"), 1)));
        CHECK(json_is_string(json_object_get(json_object_get(fault, "ctx"), "error")));
        json_decref(detail);
}

static void a_context_is_read(void)
{
        struct context_request c;
        json_t *detail = NULL;

        CHECK_INT(context_request_decode(STR("{\"language\":\"js\",\"cwd\":\"/x\"}"), &c, &detail), ==, 0);
        CHECK_STR(c.language, "js");
        CHECK_STR(c.cwd, "/x");
        context_request_done(&c);
        CHECK_INT(context_request_decode(STR("{\"language\":\"\",\"cwd\":null}"), &c, &detail), ==, 0);
        CHECK(!c.language && !c.cwd);
        context_request_done(&c);
}

int main(void)
{
        RUN(an_execution_is_read);
        RUN(faults_name_their_field);
        RUN(what_is_not_json_has_a_place);
        RUN(a_context_is_read);
        return tap_done();
}
