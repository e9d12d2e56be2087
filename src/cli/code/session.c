/* An interactive session: a prompt, code line by line, contexts of its own. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/code/code.h"
#include "cli/code/input.h"
#include "wire/json/json_text.h"
#include "cli/options.h"

#define LANGUAGES_MAX 16
#define LANGUAGE_COMMAND "%lang"

struct session_context {
        char *language, *id; /* owned */
        bool is_ours;        /* made here, and deleted at the end */
        int64_t next;        /* number of its next run */
};

struct session {
        struct interpreter *it; /* borrowed */
        struct run_view *view;  /* borrowed */
        const struct cli_options *o;
        struct session_context contexts[LANGUAGES_MAX];
        size_t count, now;   /* the current one */
        struct buf input;    /* read, and not taken yet */
        struct buf code;     /* lines of the code that is being typed */
        unsigned interrupts; /* ^C without anything typed since */
        bool is_at_end;      /* of our input */
        int code_at_end;     /* a signal other than ^C ends the session with this one; 0: none */
};

/* ---- contexts ---- */

static int add_context(struct session *s, const struct session_context *c, struct err *err)
{
        if (!c->language || !c->id)
                return err_set(err, ERR_LIMIT, "out of memory");
        s->now = s->count;
        s->contexts[s->count++] = *c;
        return 0;
}

/* The context of a language; made when it is the first time. */
static int use_language(struct session *s, const char *language, struct err *err)
{
        struct session_context c = {.is_ours = true, .next = 1};
        int r;

        language = language_name(language);
        for (size_t i = 0; i < s->count; i++) {
                if (strcmp(s->contexts[i].language, language) == 0) {
                        s->now = i;
                        return 0;
                }
        }
        if (s->count == LANGUAGES_MAX)
                return err_set(err, ERR_LIMIT, "too many languages in one session");
        r = interpreter_context_create(s->it, language, NULL, &c.id, err);
        if (r < 0)
                return r;
        c.language = strdup(language);
        return add_context(s, &c, err);
}

static int use_context(struct session *s, const char *id, struct err *err)
{
        struct session_context c = {.next = 1};
        int r = interpreter_context_language(s->it, id, &c.language, err);

        if (r < 0)
                return r;
        c.id = strdup(id);
        return add_context(s, &c, err);
}

static void forget_contexts(struct session *s)
{
        for (size_t i = 0; i < s->count; i++) {
                struct err err = {0};

                if (s->contexts[i].is_ours && s->contexts[i].id &&
                    interpreter_context_delete(s->it, s->contexts[i].id, &err) < 0 && err.kind != ERR_NOT_FOUND)
                        (void)fprintf(stderr, "sandglass code: context %s may still be there: %s\n", s->contexts[i].id,
                                      err.msg);
                free(s->contexts[i].language);
                free(s->contexts[i].id);
        }
}

/* ---- input ---- */

static void prompt(struct session *s)
{
        const struct session_context *c = &s->contexts[s->now];
        struct err ignored = {0};
        char number[24];
        int width = snprintf(number, sizeof(number), "%lld", (long long)c->next);

        (void)run_view_end_line(s->view, &ignored);
        if (!s->code.len)
                (void)fprintf(stderr, "%s [%s]: ", c->language, number);
        else
                (void)fprintf(stderr, "%*s...: ", (int)strlen(c->language) + width, "");
        (void)fflush(stderr);
}

/* ^C: what was typed is dropped; the second one in a row ends the session, and so does any other signal. */
static void signal_came(struct session *s)
{
        int number = interpreter_take_signal(s->it);

        if (!number)
                return;
        if (number != SIGINT) {
                s->code_at_end = EXIT_SIGNALLED + number;
                return;
        }
        s->interrupts++;
        s->view->is_mid_line = false;
        buf_reset(&s->code);
        buf_reset(&s->input);
        (void)fputs(s->interrupts > 1 ? "\n" : "\n(again to leave, or Ctrl-D)\n", stderr);
}

static bool is_over(const struct session *s)
{
        return s->interrupts > 1 || s->code_at_end;
}

/* The next line, with its end, into `line`, as far as the terminal gives one; false: interrupted, or none comes any more. */
static bool take_line(struct session *s, struct buf *line, struct err *err)
{
        while (!is_over(s)) {
                struct pollfd wait[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                                        {.fd = s->it->signals, .events = POLLIN}};
                struct str text = buf_text(&s->input);
                const char *end = memchr(text.p, '\n', text.n);
                size_t n = end ? (size_t)(end - text.p) + 1 : text.n;
                ssize_t got;

                if (end || (s->is_at_end && n)) {
                        (void)buf_add(line, text.p, n);
                        buf_consume(&s->input, n);
                        return true;
                }
                if (s->is_at_end)
                        return false;
                (void)poll(wait, ARRAY_LEN(wait), -1);
                if (wait[1].revents) {
                        signal_came(s);
                        return false;
                }
                got = buf_fill(&s->input, STDIN_FILENO, 4096);
                if (got == 0)
                        s->is_at_end = true;
                else if (got < 0 && got != -EINTR && got != -EAGAIN) {
                        s->is_at_end = true; /* the terminal is gone */
                        (void)err_sys(err, (int)got, "read the input");
                }
        }
        return false;
}

/* Lines up to a whole piece of code.  false: nothing to run. */
static bool take_code(struct session *s, struct err *err)
{
        buf_reset(&s->code);
        while (!is_over(s)) {
                const char *language = s->contexts[s->now].language;
                size_t before = s->code.len;
                struct str line;
                enum input_state state;

                prompt(s);
                if (!take_line(s, &s->code, err)) {
                        if (s->is_at_end && !is_over(s))
                                (void)fputs("\n", stderr);
                        if (s->code.len && s->is_at_end)
                                return true; /* ^D in the middle: what was typed so far */
                        return false;
                }
                s->interrupts = 0;
                line = str_trim((struct str){buf_text(&s->code).p + before, s->code.len - before});
                state = input_state_of(language, buf_text(&s->code));
                if (state == INPUT_COMPLETE || (state == INPUT_BLOCK && (line.n == 0 || str_is(line, "\n"))))
                        return true;
        }
        return false;
}

/* ---- runs ---- */

static bool is_blank(struct str code)
{
        for (size_t i = 0; i < code.n; i++)
                if (!memchr(" \t\r\n", code.p[i], 4))
                        return false;
        return true;
}

/* "%lang js" */
static bool is_language_command(struct str code, char language[64])
{
        struct str word;

        if (!str_starts(code, LANGUAGE_COMMAND " "))
                return false;
        word = str_trim((struct str){code.p + strlen(LANGUAGE_COMMAND), code.n - strlen(LANGUAGE_COMMAND)});
        while (word.n && (word.p[word.n - 1] == '\n' || word.p[word.n - 1] == '\r'))
                word.n--;
        word = str_trim(word);
        if (!word.n || word.n >= 64)
                return false;
        (void)snprintf(language, 64, "%.*s", STR_ARG(word));
        return true;
}

static int run_typed(struct session *s, struct err *err)
{
        struct session_context *c = &s->contexts[s->now];
        const struct run_request rq = {.code = buf_text(&s->code),
                                       .context = c->id,
                                       .env = s->o->env,
                                       .timeout_s = s->o->timeout_s,
                                       .on_event = run_view_event,
                                       .arg = s->view};
        int r;

        run_view_begin(s->view);
        r = interpreter_run(s->it, &rq, err);
        if (s->view->count)
                c->next = s->view->count + 1;
        return r;
}

/* 0: the session goes on. */
static int run_next(struct session *s, struct err *err)
{
        struct err why = {0};
        char language[64];
        int r;

        if (is_blank(buf_text(&s->code)))
                return 0;
        r = is_language_command(buf_text(&s->code), language) ? use_language(s, language, &why) : run_typed(s, &why);
        if (r == 0)
                return 0;
        if (why.kind == ERR_INTERRUPTED || why.sys == EINTR) {
                signal_came(s);
                return 0;
        }
        if (s->view->is_broken_pipe || why.kind == ERR_CONFLICT || why.kind == ERR_NOT_FOUND) {
                *err = why;
                return r;
        }
        (void)run_view_end_line(s->view, err);
        (void)fprintf(stderr, "sandglass code: %s\n", why.msg);
        return 0;
}

int code_session(struct interpreter *it, struct run_view *view, const struct cli_options *o, struct err *err)
{
        struct session s = {.it = it, .view = view, .o = o, .input = BUF_INIT(1u << 20), .code = BUF_INIT(CODE_MAX)};
        int r = o->context ? use_context(&s, o->context, err)
                           : use_language(&s, o->language ? o->language : "python", err);

        while (r == 0 && !is_over(&s) && !(s.is_at_end && !s.input.len))
                if (take_code(&s, err))
                        r = run_next(&s, err);
        forget_contexts(&s);
        buf_done(&s.input);
        buf_done(&s.code);
        if (view->is_broken_pipe)
                return EXIT_SIGNALLED + SIGPIPE;
        if (r < 0 && (err->kind == ERR_INTERRUPTED || err->sys == EINTR))
                return EXIT_SIGNALLED + SIGINT;
        return r < 0 ? r : s.code_at_end;
}
