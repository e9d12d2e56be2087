#include "cli/code/run_view.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "wire/json/json_text.h"

#define PICTURE_MAX (64u << 20) /* bytes that show one picture */

/* ---- output ---- */

/* A piece of what `fd` takes without a wait: after POLLOUT a pipe takes that many bytes. */
static ssize_t write_piece(int fd, struct str bytes)
{
        ssize_t n = write(fd, bytes.p, bytes.n < PIPE_BUF ? bytes.n : PIPE_BUF);

        if (n < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : -errno;
        return n;
}

static int cannot_write(struct run_view *v, int r, struct err *err)
{
        v->is_broken_pipe = r == -EPIPE || r == -ECONNRESET;
        return err_sys(err, r, "write the output");
}

int run_view_write(struct run_view *v, int fd, struct str bytes, struct err *err)
{
        struct pollfd wait[] = {{.fd = fd, .events = POLLOUT}, {.fd = v->signals, .events = POLLIN}};

        if (bytes.n && isatty(fd))
                v->is_mid_line = bytes.p[bytes.n - 1] != '\n';
        while (bytes.n) {
                ssize_t n;

                if (poll(wait, ARRAY_LEN(wait), -1) < 0 && errno != EINTR)
                        return err_sys(err, -errno, "wait for the output");
                if (wait[1].revents)
                        return err_set(err, ERR_INTERRUPTED, "interrupted");
                if (!wait[0].revents)
                        continue;
                n = write_piece(fd, bytes);
                if (n < 0)
                        return cannot_write(v, (int)n, err);
                bytes = (struct str){bytes.p + n, bytes.n - (size_t)n};
        }
        return 0;
}

/* With a line end, where it has none. */
static int write_line(struct run_view *v, int fd, struct str text, struct err *err)
{
        int r = run_view_write(v, fd, text, err);

        if (r == 0 && (!text.n || text.p[text.n - 1] != '\n'))
                r = run_view_write(v, fd, STR("\n"), err);
        return r;
}

int run_view_end_line(struct run_view *v, struct err *err)
{
        if (!v->is_mid_line || !isatty(STDERR_FILENO))
                return 0;
        return run_view_write(v, STDERR_FILENO, STR("\n"), err);
}

/* ---- results ---- */

static void tell_saved(const char *path, void *arg)
{
        (void)arg;
        (void)fprintf(stderr, "saved %s\n", path);
}

/* On a terminal that can.  Returns 1: shown. */
static int show_picture(struct run_view *v, const struct run_event *e, enum run_field field, struct err *err)
{
        AUTO_BUF struct buf bytes = BUF_INIT(RUN_LINE_MAX), shown = BUF_INIT(PICTURE_MAX);
        int r;

        if (!e->fields[field].n)
                return 0;
        if (v->pictures == PICTURES_AUTO)
                v->pictures = terminal_pictures_find();
        if (v->pictures == PICTURES_NONE)
                return 0;
        r = save_field_bytes(e, field, &bytes);
        if (r == 0)
                r = terminal_pictures_write(
                        v->pictures, &(struct terminal_picture){.bytes = buf_text(&bytes), .is_png = field == RUN_PNG},
                        &shown);
        if (r == -ENOMEM)
                return err_sys(err, r, "show a picture");
        if (r < 0) /* too large, broken, or of a kind that the terminal does not show: its text is printed */
                return 0;
        r = run_view_end_line(v, err);
        if (r == 0)
                r = run_view_write(v, STDOUT_FILENO, buf_text(&shown), err);
        return r < 0 ? r : 1;
}

/* What a result is as text, the best first; 0: it has none. */
static int result_text(const struct run_event *e, struct buf *out)
{
        static const enum run_field texts[] = {RUN_TEXT, RUN_MARKDOWN, RUN_LATEX};
        static const enum run_field values[] = {RUN_JSON, RUN_DATA, RUN_CHART};
        static const struct json_style style = {.indent = "  ", .has_spaces = true};
        int r;

        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                if (!e->fields[texts[i]].n)
                        continue;
                r = json_text_unquote(e->fields[texts[i]], out);
                return r < 0 ? r : 1;
        }
        for (size_t i = 0; i < ARRAY_LEN(values); i++) {
                if (!e->fields[values[i]].n)
                        continue;
                r = json_text_format(e->fields[values[i]], &style, 0, out);
                return r < 0 ? r : 1;
        }
        return 0;
}

/* "(image/png, text/html)": what there is besides text. */
static int write_kinds(struct run_view *v, const struct run_event *e, struct err *err)
{
        AUTO_BUF struct buf line = BUF_INIT(4096);
        bool is_first = true;

        for (size_t i = 0; i < RUN_FIELD_COUNT; i++) {
                if (!e->fields[i].n)
                        continue;
                (void)buf_addf(&line, "%s%s", is_first ? "(" : ", ", run_field_mime((enum run_field)i));
                is_first = false;
        }
        if (is_first)
                return 0;
        (void)buf_addf(&line, ")%s\n", v->save ? "" : ": --save DIR keeps it");
        return run_view_write(v, STDERR_FILENO, buf_text(&line), err);
}

static int view_result(struct run_view *v, const struct run_event *e, struct err *err)
{
        AUTO_BUF struct buf text = BUF_INIT(RUN_LINE_MAX);
        int shown, r = 0;

        shown = show_picture(v, e, RUN_PNG, err);
        if (shown == 0)
                shown = show_picture(v, e, RUN_JPEG, err);
        if (shown < 0)
                return shown;
        if (v->save)
                r = run_view_end_line(v, err);
        if (r == 0 && v->save)
                r = save_result(v->save, e, tell_saved, NULL, err);
        if (r < 0 || shown)
                return r;
        r = result_text(e, &text);
        if (r < 0)
                return err_sys(err, r, "print a result");
        if (r == 0)
                return write_kinds(v, e, err);
        r = run_view_end_line(v, err);
        return r < 0 ? r : write_line(v, STDOUT_FILENO, buf_text(&text), err);
}

/* ---- errors ---- */

/* bash: an exit code, as text, without a name. */
static bool is_exit_code(const struct run_event *e, uint32_t *ret)
{
        return !e->name.n && !e->traceback.n && parse_u32(e->value, 1, 255, ret) == 0;
}

static int view_error(struct run_view *v, const struct run_event *e, struct err *err)
{
        AUTO_BUF struct buf line = BUF_INIT(RUN_LINE_MAX + 16);
        uint32_t code;
        int r = run_view_end_line(v, err);

        v->code = 1;
        if (r < 0)
                return r;
        if (is_exit_code(e, &code)) {
                v->code = (int)code;
                r = v->is_session ? buf_addf(&line, "(exit code %u)", code) : 0;
                if (r < 0 || !line.len)
                        return r < 0 ? err_sys(err, r, "print an error") : 0;
        } else if (e->traceback.n) {
                r = run_traceback(e->traceback, &line);
                if (r < 0)
                        return err_sys(err, r, "print an error");
        } else {
                r = buf_add(&line, e->name.p, e->name.n);
                if (r == 0 && e->name.n && e->value.n)
                        r = buf_addc(&line, ": ");
                if (r == 0)
                        r = buf_add(&line, e->value.p, e->value.n);
                if (r < 0)
                        return err_sys(err, r, "print an error");
        }
        return write_line(v, STDERR_FILENO, buf_text(&line), err);
}

/* ---- events ---- */

void run_view_begin(struct run_view *v)
{
        v->code = 0;
        v->count = 0;
        v->is_mid_line = false;
}

/* The exit code is the same when lines are printed as they are. */
static int view_raw(struct run_view *v, const struct run_event *e, struct err *err)
{
        uint32_t code;

        if (e->type == RUN_COUNT)
                v->count = e->count;
        if (e->type == RUN_ERROR)
                v->code = is_exit_code(e, &code) ? (int)code : 1;
        return write_line(v, STDOUT_FILENO, e->line, err);
}

int run_view_event(const struct run_event *e, void *view, struct err *err)
{
        struct run_view *v = view;

        if (v->is_raw)
                return view_raw(v, e, err);
        switch (e->type) {
        case RUN_COUNT: v->count = e->count; return 0;
        case RUN_STDOUT: return run_view_write(v, STDOUT_FILENO, e->text, err);
        case RUN_STDERR: return run_view_write(v, STDERR_FILENO, e->text, err);
        case RUN_RESULT: return view_result(v, e, err);
        case RUN_ERROR: return view_error(v, e, err);
        default: return 0;
        }
}
