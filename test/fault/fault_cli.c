/* Codecs of the commands code and notebook. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "cli/code/notebook_file.h"
#include "cli/code/notebook_outputs.h"
#include "cli/code/sixel.h"
#include "fault.h"

static const char answer[] =
        "{\"type\":\"number_of_executions\",\"execution_count\":3}\n"
        "{\"type\":\"stdout\",\"text\":\"h\\u00e9\\n\"}\n"
        "{\"type\":\"result\",\"text\":\"a\\nb\",\"json\":{\"b\":[1],\"a\":{}},\"extra\":{\"x\\u002fy\":\"z\"}}\n"
        "{\"type\":\"error\",\"name\":\"E\",\"value\":\"\\t\",\"traceback\":\"x\\ny\"}\n"
        "{\"type\":\"end_of_execution\"}\n";
static const char book[] =
        "{\"cells\": [{\"cell_type\": \"code\", \"source\": [\"1\\n\", \"2\"], \"outputs\": []}], \"nbformat\": 4,"
        " \"metadata\": {\"language_info\": {\"name\": \"r\"}}}\n";

static int enomem(int r, const struct err *err)
{
        if (r == 0)
                return 0;
        return err->kind == ERR_LIMIT && err->msg[0] ? -ENOMEM : BROKEN("refused for another reason");
}

static int run_cell(struct notebook *n, struct err *err)
{
        struct notebook_outputs o;
        struct run_stream s;
        int r, later;

        notebook_outputs_init(&o, &n->style);
        run_stream_init(&s, 1 << 16);
        r = run_stream_feed(&s, (struct str){answer, 60}, notebook_outputs_event, &o, err);
        if (r == 0)
                r = run_stream_feed(&s, str_of(answer + 60), notebook_outputs_event, &o, err);
        if (r == 0)
                r = run_stream_finish(&s, notebook_outputs_event, &o, err);
        later = notebook_outputs_finish(&o, &n->cells[0].outputs, r == 0 ? err : &(struct err){0});
        n->cells[0].is_run = true;
        run_stream_done(&s);
        notebook_outputs_done(&o);
        return r < 0 ? r : later;
}

static int a_notebook_is_run(void)
{
        AUTO_BUF struct buf out = BUF_INIT(1 << 20);
        struct notebook n;
        struct err err = {0};
        int r = notebook_parse(str_of(book), &n, &err);

        if (r < 0)
                return enomem(r, &err);
        MUST(n.cell_count == 1 && strcmp(n.language, "r") == 0);
        r = enomem(run_cell(&n, &err), &err);
        if (r == 0)
                r = notebook_write(&n, &out);
        notebook_done(&n);
        return r;
}

static int json_is_written_anew(void)
{
        const struct json_style style = {.indent = " ", .has_spaces = true};
        AUTO_BUF struct buf out = BUF_INIT(1 << 20);

        return json_text_format(STR("{\"b\": [1, \"\\u00e9\"], \"a\": {\"c\": null}}"), &style, 0, &out);
}

static int a_picture_is_drawn(void)
{
        static const char png[] =
                "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\0\0\0\0\x3a\x7e\x9b\x55"
                "\0\0\0\nIDAT\x78\x9c\x63\x60\0\0\0\2\0\1\x48\xaf\xa4\x71\0\0\0\0IEND\xae\x42\x60\x82";
        AUTO_BUF struct buf out = BUF_INIT(1 << 20);
        struct picture p = {0};
        int r = png_decode((struct str){png, sizeof(png) - 1}, &p);

        MUST(r == 0 || !p.rgb);
        if (r == 0)
                r = sixel_write(&p, 10, 10, &out);
        picture_done(&p);
        return r;
}

int main(void)
{
        EACH_ENOMEM(a_notebook_is_run);
        EACH_ENOMEM(json_is_written_anew);
        EACH_ENOMEM(a_picture_is_drawn);
        return fault_done();
}
