#include "cli/code/notebook_file.h"
#include "cli/code/notebook_outputs.h"

#include "base/err.h"

#include "tap.h"

#define AUTO_BOOK AUTO(notebook_done)

static void an_untouched_notebook_is_the_same_bytes(void)
{
        static const char first[] =
                "{\n \"cells\": [],\n \"metadata\": {},\n \"nbformat\": 4,\n \"nbformat_minor\": 5\n}\n";
        static const char second[] =
                "{\"nbformat_minor\":5.0,\"nbformat\":4,\"cells\":[{\"cell_type\":\"code\",\"source\":"
                "\"x\",\"z\":1e400}],\"u\":\"\\u00e9\"}\n";
        static const char third[] = "\t{ \"nbformat\" : 4 ,\r\n \"cells\" : [ ] }\n\n";
        const char *const texts[] = {first, second, third};

        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                AUTO_BOOK struct notebook n = {0};
                AUTO_BUF struct buf out = BUF_INIT(1 << 16);
                struct err err = {0};

                CHECK_INT(notebook_parse(str_of(texts[i]), &n, &err), ==, 0);
                CHECK_INT(notebook_write(&n, &out), ==, 0);
                CHECK_STR(buf_cstr(&out), texts[i]);
        }
}

static int add(struct notebook_outputs *o, const char *line)
{
        AUTO_BUF struct buf texts = BUF_INIT(1 << 16);
        struct run_event e;
        struct err err = {0};
        int r = run_event_decode(str_of(line), &texts, &e, &err);

        return r < 0 ? r : notebook_outputs_event(&e, o, &err);
}

static const char doc[] =
        "{\n \"cells\": [\n  {\n   \"cell_type\": \"code\",\n   \"execution_count\": null,\n   \"id\": \"a\",\n"
        "   \"metadata\": {},\n   \"outputs\": [],\n   \"source\": [\n    \"1\"\n   ]\n  }\n ],\n"
        " \"metadata\": {\n  \"language_info\": {\n   \"name\": \"R\"\n  }\n },\n \"nbformat\": 4,\n"
        " \"nbformat_minor\": 5\n}\n";

static void outputs_are_written_as_jupyter_does(void)
{
        AUTO_BOOK struct notebook n = {0};
        AUTO_BUF struct buf out = BUF_INIT(1 << 16);
        struct notebook_outputs o;
        struct err err = {0};

        CHECK_INT(notebook_parse(str_of(doc), &n, &err), ==, 0);
        CHECK_STR(n.language, "R");
        CHECK_INT(n.cell_count, ==, 1);
        CHECK(str_is(buf_text(&n.cells[0].source), "1"));
        notebook_outputs_init(&o, &n.style);
        CHECK_INT(add(&o, "{\"type\":\"number_of_executions\",\"execution_count\":4}"), ==, 0);
        CHECK_INT(add(&o, "{\"type\":\"stdout\",\"text\":\"a\\r\\nb\"}"), ==, 0);
        CHECK_INT(add(&o, "{\"type\":\"stdout\",\"text\":\"c\\u2028d\"}"), ==, 0);
        CHECK_INT(add(&o, "{\"type\":\"result\",\"text\":\"\",\"chart\":{\"b\":[1.0],\"a\":null},\"extra\":{\"a/"
                          "b\":[\"x\"]},\"is_main_result\":true}"),
                  ==, 0);
        CHECK_INT(add(&o, "{\"type\":\"error\",\"name\":\"E\",\"value\":\"v\",\"traceback\":\"one\\n\\ntwo\\n\"}"), ==,
                  0);
        CHECK_INT(notebook_outputs_finish(&o, &n.cells[0].outputs, &err), ==, 0);
        n.cells[0].is_run = true;
        n.cells[0].count = o.execution_count;
        CHECK(o.has_failed && str_is(buf_text(&o.failure), "E: v"));
        notebook_outputs_done(&o);
        CHECK_INT(notebook_write(&n, &out), ==, 0);
        CHECK_STR(buf_cstr(&out),
                  "{\n \"cells\": [\n  {\n   \"cell_type\": \"code\",\n   \"execution_count\": 4,\n   \"id\": \"a\",\n"
                  "   \"metadata\": {},\n   \"outputs\": [\n    {\n     \"name\": \"stdout\",\n     \"output_type\": "
                  "\"stream\",\n"
                  "     \"text\": [\n      \"a\\r\\n\",\n      \"bc\xe2\x80\xa8\",\n      \"d\"\n     ]\n    },\n    "
                  "{\n     \"data\": {\n"
                  "      \"a/b\": \"[\\\"x\\\"]\",\n      \"e2b/chart\": \"{\\\"a\\\": null, \\\"b\\\": [1.0]}\",\n    "
                  "  \"text/plain\": []\n"
                  "     },\n     \"execution_count\": 4,\n     \"metadata\": {},\n     \"output_type\": "
                  "\"execute_result\"\n    },\n"
                  "    {\n     \"ename\": \"E\",\n     \"evalue\": \"v\",\n     \"output_type\": \"error\",\n     "
                  "\"traceback\": [\n"
                  "      \"one\",\n      \"\",\n      \"two\"\n     ]\n    }\n   ],\n   \"source\": [\n    \"1\"\n   "
                  "]\n  }\n ],\n"
                  " \"metadata\": {\n  \"language_info\": {\n   \"name\": \"R\"\n  }\n },\n \"nbformat\": 4,\n"
                  " \"nbformat_minor\": 5\n}\n");
}

static void an_output_that_does_not_fit_is_left_out(void)
{
        const struct json_style style = {.indent = " ", .has_spaces = true};
        AUTO_BUF struct buf out = BUF_INIT(1 << 16);
        struct notebook_outputs o;
        struct err err = {0};

        notebook_outputs_init(&o, &style);
        o.text.max = o.stream.max = 100;
        CHECK_INT(add(&o, "{\"type\":\"stdout\",\"text\":\"x\"}"), ==, 0);
        CHECK_INT(add(&o, "{\"type\":\"result\",\"html\":\"0123456789012345678901234567890123456789\",\"extra\":{}}"),
                  <, 0);
        CHECK_INT(notebook_outputs_finish(&o, &out, &err), ==, 0);
        notebook_outputs_done(&o);
        CHECK_STR(buf_cstr(&out),
                  "[\n    {\n     \"name\": \"stdout\",\n     \"output_type\": \"stream\",\n     \"text\": [\n      "
                  "\"x\"\n     ]\n    }\n   ]");
}

static void what_is_no_notebook_is_refused(void)
{
        static const struct {
                const char *text, *words;
        } cases[] = {
                {"{\n\n]", "not valid JSON (line 3)"},
                {"3", "not a notebook: no JSON object"},
                {"{}", "not a notebook: there is no 'nbformat'"},
                {"{\"nbformat\":\"4\"}", "not a notebook: there is no 'nbformat'"},
                {"{\"nbformat\":4,\"cells\":{}}", "not a notebook: 'cells' is no list"},
                {"{\"nbformat\":4,\"cells\":[{}]}", "item 1 of 'cells' is no cell"},
                {"{\"nbformat\":4,\"cells\":[{\"cell_type\":\"code\",\"source\":[1]}]}",
                 "item 1 of 'cells' has no source"},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct notebook n;
                struct err err = {0};

                CHECK_INT(notebook_parse(str_of(cases[i].text), &n, &err), <, 0);
                CHECK_STR(err.msg, cases[i].words);
                CHECK_INT(err.kind, ==, ERR_INVALID);
        }
}

int main(void)
{
        RUN(an_untouched_notebook_is_the_same_bytes);
        RUN(outputs_are_written_as_jupyter_does);
        RUN(an_output_that_does_not_fit_is_left_out);
        RUN(what_is_no_notebook_is_refused);
        return tap_done();
}
