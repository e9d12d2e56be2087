/* notebook: run the cells of a notebook in a sandbox, and write their outputs into the file. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "cli/cli.h"
#include "cli/code/code.h"
#include "cli/code/input.h"
#include "cli/code/notebook_file.h"
#include "cli/code/notebook_outputs.h"
#include "cli/code/replace_file.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/sandbox/running.h"
#include "cli/signals.h"

#define OUTPUTS_MAX (1024u << 20) /* of all cells */
#define LIFE_S 300                /* of a sandbox made here, from each minute of use on */
#define KEPT_S 3600               /* from the end on, when it is kept */

const char notebook_usage[] =
        "usage: sandglass notebook run [--out FILE] [--sandbox ID | --template TEMPLATE] [--keep] [--allow-errors]"
        " [--language LANGUAGE] [-w DIR] [-e NAME=VALUE]... [--timeout SECONDS] [--data DIR] FILE\n"
        "Run the cells of a notebook (.ipynb, nbformat 4) one after the other, in a new sandbox that is killed at the "
        "end, and\n"
        "write their outputs into the notebook.  Everything else in the file stays as it is.  A cell that fails ends "
        "the run: the\n"
        "outputs so far are written, and the exit code is 1.\n"
        "  --out FILE                write the notebook with its outputs to this file (default: to the notebook "
        "itself)\n"
        "  --sandbox ID              use this running sandbox, and leave it running\n"
        "  -t, --template TEMPLATE   what the new sandbox begins with (default code-interpreter-v1)\n"
        "  --keep                    leave the new sandbox running, and print its id on stderr\n"
        "  --allow-errors            go on after a cell that fails\n"
        "  --language LANGUAGE       the language of the cells (default: what the notebook says, else python)\n"
        "  -w, --workdir DIR         where the cells run in the sandbox (default /home/user)\n"
        "  -e, --env NAME=VALUE      a variable for everything in the new sandbox\n"
        "  --timeout SECONDS         how long one cell may take (default: as long as it takes)\n";

struct notebook_run {
        struct cli_api *api;
        const struct cli_options *o;
        int signals;
        struct notebook book;
        struct api_sandbox sandbox;
        bool is_new; /* the sandbox was made here */
        struct interpreter it;
        char *context; /* owned; NULL: none */
        size_t output_bytes;
        bool is_terminal; /* a person looks on */
        int code;
};

/* ---- what a person sees ---- */

/* The first line of a cell that is no comment and not blank, without what a terminal would obey. */
static void first_line(struct str source, char out[60])
{
        struct str line;
        size_t n = 0;

        do {
                bool goes_on = str_cut(&source, '\n', &line);

                line = str_trim(line);
                if (!goes_on)
                        break;
        } while (!line.n);
        for (; n < line.n && n + 1 < 60; n++)
                out[n] = (char)((unsigned char)line.p[n] < 0x20 || line.p[n] == 0x7f ? ' ' : line.p[n]);
        while (n && n < line.n && ((unsigned char)line.p[n] & 0xc0) == 0x80) /* no half character */
                n--;
        out[n] = '\0';
}

static void show_cell(const struct notebook_run *run, size_t index, uint64_t took_ms, bool is_over)
{
        char line[60];

        if (!run->is_terminal)
                return;
        first_line(buf_text(&run->book.cells[index].source), line);
        (void)fprintf(stderr, "\r\x1b[K[%zu/%zu] ", index + 1, run->book.cell_count);
        if (is_over)
                (void)fprintf(stderr, "%llu.%llu s  %s\n", (unsigned long long)took_ms / 1000,
                              (unsigned long long)took_ms / 100 % 10, line);
        else
                (void)fprintf(stderr, "%s", line);
        (void)fflush(stderr);
}

/* ---- the sandbox ---- */

static void set_life(struct notebook_run *run, int seconds)
{
        struct err ignored = {0}; /* the next minute tries again, and the end of the sandbox is an error by itself */

        (void)api_act(run->api,
                      &(struct api_act){.prefix = "",
                                        .id = run->sandbox.id,
                                        .action = "timeout",
                                        .body = json_pack("{s:i}", "timeout", seconds)},
                      NULL, &ignored);
}

static int make_sandbox(struct notebook_run *run, struct err *err)
{
        const struct api_create create = {.template = run->o->template ? run->o->template : INTERPRETER_TEMPLATE,
                                          .env = run->o->env};
        struct progress p;
        int r;

        progress_start(&p, run->api, "starting", create.template);
        r = api_cancel_on(run->api, run->signals, err); /* the server ends what nobody waits for */
        if (r == 0)
                r = api_create(run->api, &create, &run->sandbox, err);
        (void)api_cancel_on(run->api, -1, err);
        progress_end(&p);
        run->is_new = r == 0;
        run->sandbox.end_ns = 0; /* it is lengthened all the time */
        return r;
}

static int find_sandbox(struct notebook_run *run, struct err *err)
{
        return run->o->sandbox ? api_get_running(run->api, run->o->sandbox, &run->sandbox, err)
                               : make_sandbox(run, err);
}

static void leave_sandbox(struct notebook_run *run)
{
        struct err err = {0};

        if (run->is_new && run->o->keep) {
                set_life(run, KEPT_S);
                (void)fprintf(stderr, "sandbox %s goes on\n", run->sandbox.id);
        } else if (run->is_new) {
                if (api_delete(run->api, run->sandbox.id, &err) < 0 && err.kind != ERR_NOT_FOUND)
                        (void)fprintf(stderr, "sandglass notebook: sandbox %s may still run: %s\n", run->sandbox.id,
                                      err.msg);
        } else if (run->context && interpreter_context_delete(&run->it, run->context, &err) < 0 &&
                   err.kind != ERR_NOT_FOUND) {
                (void)fprintf(stderr, "sandglass notebook: context %s may still be there: %s\n", run->context, err.msg);
        }
}

/* ---- cells ---- */

struct cell_run {
        struct notebook_run *run;
        struct notebook_outputs outputs;
        uint64_t shown_s;
};

static int cell_event(const struct run_event *e, void *arg, struct err *err)
{
        return notebook_outputs_event(e, &((struct cell_run *)arg)->outputs, err);
}

static void minute_is_over(void *arg)
{
        struct notebook_run *run = ((struct cell_run *)arg)->run;

        if (run->is_new)
                set_life(run, LIFE_S);
}

static void print_failure(size_t number, size_t count, const struct notebook_outputs *o)
{
        struct str traceback = buf_text(&o->traceback);

        if (traceback.n) {
                (void)fwrite(traceback.p, 1, traceback.n, stderr);
                if (traceback.p[traceback.n - 1] != '\n')
                        (void)fputc('\n', stderr);
        }
        (void)fprintf(stderr, "sandglass notebook: cell %zu of %zu failed", number, count);
        if (o->failure.len)
                (void)fprintf(stderr, ": %.*s", STR_ARG(buf_text(&o->failure)));
        (void)fputc('\n', stderr);
}

/* What is there goes into the cell, also after a failure. */
static int keep_outputs(struct notebook_run *run, struct notebook_cell *cell, struct notebook_outputs *o,
                        struct err *err)
{
        int r = notebook_outputs_finish(o, &cell->outputs, err);

        cell->is_run = true;
        cell->count = o->execution_count;
        run->output_bytes += cell->outputs.len;
        if (r == 0 && run->output_bytes > OUTPUTS_MAX)
                r = err_set(err, ERR_TOO_LARGE, "the outputs of all cells have more than %u MiB", OUTPUTS_MAX >> 20);
        return r;
}

/* 0: go on; 1: the cell failed, which ends the run. */
static int run_cell(struct notebook_run *run, size_t index, struct err *err)
{
        struct notebook_cell *cell = &run->book.cells[index];
        struct cell_run c = {.run = run};
        const struct run_request rq = {.code = buf_text(&cell->source),
                                       .context = run->context,
                                       .timeout_s = run->o->timeout_s,
                                       .on_event = cell_event,
                                       .on_minute = minute_is_over,
                                       .arg = &c};
        uint64_t began_ms = clock_mono_ms();
        struct err later = {0};
        int r, kept;

        show_cell(run, index, 0, false);
        minute_is_over(&c);
        notebook_outputs_init(&c.outputs, &run->book.style);
        r = interpreter_run(&run->it, &rq, err);
        show_cell(run, index, clock_mono_ms() - began_ms, true);
        kept = keep_outputs(run, cell, &c.outputs, &later);
        if (r == 0 && kept < 0) {
                *err = later;
                r = kept;
        }
        if (r == 0 && c.outputs.has_failed && !run->o->allow_errors && !cell->may_fail) {
                print_failure(index + 1, run->book.cell_count, &c.outputs);
                r = 1;
        }
        notebook_outputs_done(&c.outputs);
        return r < 0 ? err_wrap(err, "cell %zu of %zu", index + 1, run->book.cell_count) : r;
}

static int run_cells(struct notebook_run *run, struct err *err)
{
        const char *language = run->o->language ? run->o->language : run->book.language;
        int r = interpreter_context_create(&run->it, language_name(language ? language : "python"), run->o->cwd,
                                           &run->context, err);

        for (size_t i = 0; r == 0 && i < run->book.cell_count; i++)
                r = run_cell(run, i, err);
        return r;
}

/* ---- the file ---- */

static int read_notebook(const char *path, struct buf *text, struct err *err)
{
        AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
        struct stat st;
        ssize_t n;

        if (fd < 0)
                return err_sys(err, -errno, "open '%s'", path);
        if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
                return err_set(err, ERR_INVALID, "'%s' is a directory", path);
        do {
                n = buf_fill(text, fd, 1u << 20);
        } while (n > 0 || n == -EINTR);
        if (n == -E2BIG)
                return err_set(err, ERR_TOO_LARGE, "'%s' has more than %u MiB", path, NOTEBOOK_MAX >> 20);
        return n < 0 ? err_sys(err, (int)n, "read '%s'", path) : 0;
}

static int write_notebook(const struct notebook *book, struct file_replacement *to, struct err *err)
{
        AUTO_BUF struct buf text = BUF_INIT(SIZE_MAX / 2);
        int r = notebook_write(book, &text);

        return r < 0 ? err_sys(err, r, "write the notebook") : file_replacement_write(to, &text, err);
}

/* ---- the command ---- */

static bool has_run(const struct notebook *book)
{
        for (size_t i = 0; i < book->cell_count; i++)
                if (book->cells[i].is_run)
                        return true;
        return false;
}

/* The exit code, or negative.  What was run is written, however the run ended. */
static int run_and_write(struct notebook_run *run, struct file_replacement *to, struct err *err)
{
        struct err later = {0};
        int r = run_cells(run, err), signal = 0;
        bool is_interrupted = r < 0 && (err->kind == ERR_INTERRUPTED || err->sys == EINTR);

        if (is_interrupted)
                signal = interpreter_take_signal(&run->it);
        if (r >= 0 || err->kind != ERR_CONFLICT) /* who paused the sandbox wants to have it */
                leave_sandbox(run);
        free(run->context);
        if (has_run(&run->book) && write_notebook(&run->book, to, &later) < 0) {
                if (r < 0)
                        (void)cli_fail("notebook", err);
                *err = later;
                return -1;
        }
        return is_interrupted ? EXIT_SIGNALLED + (signal ? signal : SIGINT) : r;
}

static int run_notebook(struct notebook_run *run, const char *path, struct err *err)
{
        AUTO_BUF struct buf text = BUF_INIT(NOTEBOOK_MAX);
        AUTO(file_replacement_done) struct file_replacement to = {0};
        int r = read_notebook(path, &text, err);

        if (r == 0) {
                r = notebook_parse(buf_text(&text), &run->book, err);
                if (r < 0)
                        return err_wrap(err, "%s", path);
        }
        if (r == 0)
                r = file_replacement_prepare(&to, run->o->out ? run->o->out : path, err);
        if (r == 0 && run->book.cell_count == 0)
                return write_notebook(&run->book, &to, err);
        if (r == 0)
                r = find_sandbox(run, err);
        if (r < 0)
                return err->sys == EINTR ? EXIT_SIGNALLED + SIGINT : r;
        r = interpreter_open(run->api, &run->sandbox, run->signals, &run->it, err);
        if (r < 0) {
                leave_sandbox(run);
                return r;
        }
        r = run_and_write(run, &to, err);
        interpreter_close(&run->it);
        return r;
}

static int check_options(const struct cli_options *o, struct err *err)
{
        if (o->sandbox && (o->template || o->keep || o->env))
                return err_set(err, ERR_INVALID, "--sandbox: --template, --keep and --env are for a new one");
        return 0;
}

static int notebook_run_main(int argc, char **argv)
{
        AUTO(cli_options_done) struct cli_options o = {0};
        AUTO_CLOSE int signals = -1;
        struct err err = {0};
        struct cli_api api;
        struct notebook_run run;
        int r;

        if (cli_options_parse(argc, argv,
                              CLI_ANYWHERE | CLI_DATA | CLI_TEMPLATE | CLI_TIMEOUT | CLI_ENV | CLI_CWD | CLI_NOTEBOOK,
                              &o, &err) < 0 ||
            o.help || o.arg_count != 1 || check_options(&o, &err) < 0)
                return cli_usage(&o, notebook_usage, &err);
        signals = cli_take_signals();
        if (api_open(&api, o.data, &err) < 0)
                return cli_fail("notebook", &err);
        run = (struct notebook_run){.api = &api, .o = &o, .signals = signals, .is_terminal = isatty(STDERR_FILENO)};
        r = run_notebook(&run, o.args[0], &err);
        notebook_done(&run.book);
        api_close(&api);
        return r < 0 ? cli_fail("notebook", &err) : r;
}

int notebook_main(int argc, char **argv)
{
        bool is_help = argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);

        if (argc > 1 && strcmp(argv[1], "run") == 0)
                return notebook_run_main(argc - 1, argv + 1);
        if (argc > 1 && !is_help)
                (void)fprintf(stderr, "sandglass notebook: %s: no such command\n", argv[1]);
        (void)fputs(notebook_usage, is_help ? stdout : stderr);
        return is_help ? 0 : 2;
}
