/* A notebook that was not run stays as it is; with new outputs it is still the same notebook. */
#include "base/err.h"
#include "cli/code/notebook_file.h"
#include "cli/code/notebook_outputs.h"
#include "fuzz.h"

static void unchanged(const struct notebook *n)
{
        AUTO_BUF struct buf out = BUF_INIT(1 << 24);
        bool has_end = n->text.p[n->text.n - 1] == '\n';

        MUST(notebook_write(n, &out) == 0);
        MUST(out.len == n->text.n + !has_end && memcmp(buf_at(&out), n->text.p, n->text.n) == 0);
}

/* The input is also the answer to each cell. */
static void run_cells(struct notebook *n, struct str answer)
{
        for (size_t i = 0; i < n->cell_count; i++) {
                struct notebook_outputs o;
                struct run_stream s;
                struct err err = {0};

                notebook_outputs_init(&o, &n->style);
                run_stream_init(&s, 1 << 16);
                (void)run_stream_feed(&s, STR("{\"type\":\"stdout\",\"text\":\"a\\r\\nb\\u2028c\"}\n"),
                                      notebook_outputs_event, &o, &err);
                (void)run_stream_feed(&s, answer, notebook_outputs_event, &o, &err);
                MUST(notebook_outputs_finish(&o, &n->cells[i].outputs, &err) == 0);
                n->cells[i].is_run = true;
                n->cells[i].count = o.execution_count;
                run_stream_done(&s);
                notebook_outputs_done(&o);
        }
}

static void changed(struct notebook *n)
{
        AUTO_BUF struct buf out = BUF_INIT(1 << 26), again = BUF_INIT(1 << 26);
        struct notebook back;
        struct err err = {0};

        MUST(notebook_write(n, &out) == 0);
        MUST(notebook_parse(buf_text(&out), &back, &err) == 0);
        MUST(back.cell_count == n->cell_count);
        for (size_t i = 0; i < back.cell_count; i++) {
                MUST(str_eq(buf_text(&back.cells[i].source), buf_text(&n->cells[i].source)));
                MUST(str_eq(json_text_get(back.cells[i].json, "outputs"), buf_text(&n->cells[i].outputs)));
        }
        MUST(notebook_write(&back, &again) == 0 && str_eq(buf_text(&again), buf_text(&out)));
        notebook_done(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        AUTO_FREE uint8_t *copy = fuzz_copy(data, size);
        const uint8_t *end = memchr(copy, 0, size); /* the notebook, a NUL, the answer */
        size_t n = end ? (size_t)(end - copy) : size;
        struct notebook book;
        struct err err = {0};

        if (notebook_parse((struct str){(const char *)copy, n}, &book, &err) < 0) {
                MUST(err.kind == ERR_INVALID && err.msg[0]);
                return 0;
        }
        unchanged(&book);
        run_cells(&book, end ? (struct str){(const char *)end + 1, size - n - 1} : (struct str){"", 0});
        changed(&book);
        notebook_done(&book);
        return 0;
}
