/* code: a file, or a session at the terminal, in the code interpreter of a sandbox. */
#include "cli/code/code.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/cli.h"
#include "cli/code/input.h"
#include "wire/json/json_text.h"
#include "cli/options.h"
#include "cli/sandbox/running.h"
#include "cli/signals.h"

const char code_usage[] =
        "usage: sandglass code [--language LANGUAGE | --context ID] [-e NAME=VALUE]... [--timeout SECONDS] [--save DIR]"
        " [--show PROTOCOL] [--json] [--data DIR] SANDBOX [FILE]\n"
        "Run code in the code interpreter of a running sandbox: a file; our input, with `-` or where it is no "
        "terminal; "
        "else an\n"
        "interactive session.  Variables stay in the sandbox from one run to the next.  Output comes as it is written; "
        "an\n"
        "error goes to stderr, and the exit code is then 1, for bash that of the last command.\n"
        "  --language LANGUAGE    python, javascript, typescript, r, java, bash, or another kernel of the sandbox\n"
        "                         (default: by the ending of the file's name, else python)\n"
        "  --context ID           run in this context, which has a language and variables of its own\n"
        "  -e, --env NAME=VALUE   a variable for this run only\n"
        "  --timeout SECONDS      how long a run may take (default: as long as it takes)\n"
        "  --save DIR             write pictures, documents and tables into this directory: png, jpeg, svg, pdf, html\n"
        "  --show PROTOCOL        how the terminal shows pictures: kitty, iterm, sixel, none (default auto: it is "
        "asked)\n"
        "  --json                 print the answer of the interpreter as it is, a JSON object on each line\n";

/* ---- the code ---- */

static int read_all(int fd, const char *name, struct buf *out, struct err *err)
{
        for (;;) {
                ssize_t n = buf_fill(out, fd, 1u << 20);

                if (n == 0)
                        return 0;
                if (n == -E2BIG)
                        return err_set(err, ERR_TOO_LARGE, "%s has more than %u MiB", name, CODE_MAX >> 20);
                if (n < 0 && n != -EINTR)
                        return err_sys(err, (int)n, "read %s", name);
        }
}

static int read_code(const char *path, struct buf *out, struct err *err)
{
        AUTO_CLOSE int fd = -1;
        struct stat st;

        if (!path)
                return read_all(STDIN_FILENO, "the input", out, err);
        if (str_ends(str_of(path), ".ipynb"))
                return err_set(err, ERR_INVALID, "'%s' is a notebook: use `sandglass notebook run %s`", path, path);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return err_sys(err, -errno, "open '%s'", path);
        if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
                return err_set(err, ERR_INVALID, "'%s' is a directory", path);
        return read_all(fd, path, out, err);
}

/* ---- the run ---- */

static int run_code(struct interpreter *it, struct run_view *view, const struct cli_options *o, const char *path,
                    struct str code, struct err *err)
{
        const char *language = o->language ? o->language : path ? language_of_file(path) : NULL;
        const struct run_request rq = {.code = code,
                                       .language = o->context || !language ? NULL : language_name(language),
                                       .context = o->context,
                                       .env = o->env,
                                       .timeout_s = o->timeout_s,
                                       .on_event = run_view_event,
                                       .arg = view};
        int r = interpreter_run(it, &rq, err), signal;

        if (r == 0)
                return view->code;
        if (view->is_broken_pipe)
                return EXIT_SIGNALLED + SIGPIPE; /* nobody reads us any more: end as if the signal had come */
        if (err->kind != ERR_INTERRUPTED)
                return r;
        signal = interpreter_take_signal(it);
        return EXIT_SIGNALLED + (signal ? signal : SIGINT);
}

static int code_in(struct cli_api *api, const struct cli_options *o, struct run_view *view, const char *path,
                   const struct buf *code, struct err *err)
{
        struct api_sandbox sandbox = {0};
        struct interpreter it;
        int r;

        if (api_get_running(api, o->args[0], &sandbox, err) < 0 ||
            interpreter_open(api, &sandbox, view->signals, &it, err) < 0)
                return -1;
        r = code ? run_code(&it, view, o, path, buf_text(code), err) : code_session(&it, view, o, err);
        interpreter_close(&it);
        return r;
}

/* ---- the command ---- */

static int check_options(const struct cli_options *o, struct run_view *view, struct err *err)
{
        if (o->context && o->language)
                return err_set(err, ERR_INVALID, "--context and --language: a context has its language");
        if (o->show && picture_protocol_parse(o->show, &view->pictures) < 0)
                return err_set(err, ERR_INVALID, "--show %s: must be auto, kitty, iterm, sixel or none", o->show);
        return 0;
}

static int code_with(const struct cli_options *o, struct run_view *view, struct err *err)
{
        const char *path = o->arg_count > 1 && strcmp(o->args[1], "-") != 0 ? o->args[1] : NULL;
        bool is_session = o->arg_count == 1 && isatty(STDIN_FILENO);
        AUTO_BUF struct buf code = BUF_INIT(CODE_MAX);
        struct save_dir save = {.fd = -1};
        struct cli_api api;
        int r = 0;

        if (!is_session)
                r = read_code(path, &code, err);
        view->signals = cli_take_signals(); /* not before: a read of the input ends on a signal, too */
        view->is_raw = o->json;
        view->is_session = is_session;
        if (r == 0 && o->save_dir) {
                r = save_dir_open(o->save_dir, &save, err);
                view->save = &save;
        }
        if (r == 0)
                r = api_open(&api, o->data, err);
        if (r == 0) {
                r = code_in(&api, o, view, path, is_session ? NULL : &code, err);
                api_close(&api);
        }
        save_dir_close(&save);
        close_fd(&view->signals);
        return r;
}

int code_main(int argc, char **argv)
{
        AUTO(cli_options_done) struct cli_options o = {0};
        struct run_view view = {.signals = -1};
        struct err err = {0};
        int r;

        if (cli_options_parse(argc, argv, CLI_ANYWHERE | CLI_DATA | CLI_JSON | CLI_TIMEOUT | CLI_ENV | CLI_CODE, &o,
                              &err) < 0 ||
            o.help || o.arg_count < 1 || o.arg_count > 2 || check_options(&o, &view, &err) < 0)
                return cli_usage(&o, code_usage, &err);
        r = code_with(&o, &view, &err);
        return r < 0 ? cli_fail("code", &err) : r;
}
