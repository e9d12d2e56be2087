/* step_start.c - the start command of a template in the background, and the ready command until it succeeds.
 *
 *      start command (its stream stays open, for its output and its exit status)
 *      ready command, exit 0 ──▶ done: both connections are closed, the processes stay
 *                     else   ──▶ again after a while
 *      start command fails before ──▶ the step fails
 *
 * Without a ready command the template is ready 20 seconds after its start command began. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "builder/command.h"
#include "envd_client/envd_process.h"
#include "builder/ready_check.h"
#include "builder/step.h"
#include "http/client.h"
#include "model/json_field.h"

#define DEFAULT_READY "sleep 20"
#define DEFAULT_TIMEOUT_S 600
#define TIMEOUT_S_MAX 86400
#define OUTPUT_MAX 4096u /* of one check */
#define LAST_LINE_MAX 100u

enum { LOG_START_OUT, LOG_START_ERR, LOG_READY_OUT, LOG_READY_ERR }; /* streams of the log */

struct start_step {
        const char *start_cmd, *ready_cmd, *user, *workdir; /* borrowed from the spec; NULL: not given */
        json_t *env;                                        /* borrowed */
        int64_t timeout_s;
        struct ready_check check;
        struct http_client *second;    /* owned: for the checks */
        struct envd_process *process;  /* owned: the start command; NULL: none, or it has ended */
        struct envd_process *checking; /* owned: a check under way */
        struct timer next;             /* until the next check */
        struct timer deadline;
        uint32_t waited_ms; /* before the last check */
        struct step *step;
        struct buf output, last_output; /* of this check and of the one before */
        char last_line[LAST_LINE_MAX];  /* that the start command has printed */
};

static void start_fail(struct start_step *st, enum err_kind kind, const char *what, const char *why)
{
        struct err err = {0};
        bool has_line = st->last_line[0] && strcmp(what, "start command failed: error running start command") == 0;

        (void)err_set(&err, kind, "%s: %s%s%s", what, why, has_line ? ": " : "", has_line ? st->last_line : "");
        step_fail(st->step, &err);
}

/* "10m0s", as people know it from other builders. */
static const char *duration_words(int64_t s, char out[32])
{
        if (s >= 60)
                (void)snprintf(out, 32, "%lldm%llds", (long long)(s / 60), (long long)(s % 60));
        else
                (void)snprintf(out, 32, "%llds", (long long)s);
        return out;
}

static void start_is_late(struct timer *t)
{
        struct start_step *st = CONTAINER_OF(t, struct start_step, deadline);
        char words[32], why[64];

        (void)snprintf(why, sizeof(why), "ready command timed out after %s", duration_words(st->timeout_s, words));
        start_fail(st, ERR_TIMEOUT, "ready command failed", why);
}

/* ---- the start command ---- */

/* The last line with something in it, for messages. */
static void keep_last_line(struct start_step *st, struct str bytes)
{
        AUTO_BUF struct buf text = BUF_INIT(2 * LAST_LINE_MAX);
        size_t end = bytes.n, begin;

        while (end && (bytes.p[end - 1] == '\n' || bytes.p[end - 1] == '\r'))
                end--;
        for (begin = end; begin && bytes.p[begin - 1] != '\n';)
                begin--;
        if (end == begin || utf8_add(&text, (struct str){bytes.p + begin, end - begin}, LAST_LINE_MAX - 1) < 0)
                return;
        (void)snprintf(st->last_line, sizeof(st->last_line), "%.*s", (int)text.len, (const char *)buf_at(&text));
}

static void start_on_output(const struct envd_piece *piece, void *arg)
{
        struct start_step *st = arg;

        step_log_bytes(&st->step->log, piece->kind == ENVD_STDERR ? LOG_START_ERR : LOG_START_OUT, piece->bytes);
        keep_last_line(st, piece->bytes);
}

static void start_on_end(const struct envd_process_end *end, void *arg)
{
        static const char what[] = "start command failed: error running start command";
        struct start_step *st = arg;

        step_log_flush(&st->step->log, LOG_START_OUT);
        step_log_flush(&st->step->log, LOG_START_ERR);
        switch (end->err.kind) {
        case ERR_NONE:
                if (end->exit_code != 0)
                        start_fail(st, ERR_INVALID, what, end->status);
                break; /* a command that has done its work is fine */
        case ERR_INVALID: start_fail(st, ERR_INVALID, what, end->err.msg); break;
        default: step_fail_envd(st->step, &end->err);
        }
}

/* ---- checks ---- */

static void check_on_output(const struct envd_piece *piece, void *arg)
{
        struct start_step *st = arg;
        size_t room = buf_room(&st->output);

        (void)buf_add(&st->output, piece->bytes.p, piece->bytes.n < room ? piece->bytes.n : room);
}

/* What a check says is told once, not every time. */
static void check_log(struct start_step *st)
{
        struct buf was = st->last_output;

        if (st->output.len && (st->output.len != was.len || memcmp(buf_at(&st->output), buf_at(&was), was.len) != 0)) {
                step_log_bytes(&st->step->log, LOG_READY_OUT,
                               (struct str){(const char *)buf_at(&st->output), st->output.len});
                step_log_flush(&st->step->log, LOG_READY_OUT);
        }
        st->last_output = st->output;
        st->output = was;
        buf_reset(&st->output);
}

static void check_on_end(const struct envd_process_end *end, void *arg)
{
        struct start_step *st = arg;

        check_log(st);
        switch (end->err.kind) {
        case ERR_NONE:
                if (end->exit_code == 0) {
                        step_succeed(st->step, NULL);
                        return;
                }
                st->waited_ms = ready_check_next_ms(&st->check, st->waited_ms);
                timer_set(st->step->loop, &st->next, st->waited_ms);
                break;
        case ERR_TIMEOUT: break; /* the deadline is ours, and at hand */
        case ERR_INVALID: start_fail(st, ERR_INVALID, "ready command failed", end->err.msg); break;
        default: step_fail_envd(st->step, &end->err);
        }
}

static void check_begin(struct start_step *st)
{
        const struct envd_process_options opt = {.token = st->step->token,
                                                 .user = st->user,
                                                 .cwd = st->workdir,
                                                 .cmd = "/bin/sh",
                                                 .args = st->check.args,
                                                 .env = st->env,
                                                 .timeout_s = (uint32_t)st->timeout_s,
                                                 .on_output = check_on_output,
                                                 .on_end = check_on_end,
                                                 .arg = st};
        struct err err = {0};

        st->checking = envd_process_free(st->checking);
        if (envd_process_start(st->second, &opt, &st->checking, &err) < 0)
                step_fail_envd(st->step, &err);
}

static void check_is_due(struct timer *t)
{
        struct start_step *st = CONTAINER_OF(t, struct start_step, next);

        if (st->step->channel) /* not answered yet */
                check_begin(st);
}

/* ---- the step ---- */

static int start_decode(struct start_step *st, struct err *err)
{
        const json_t *spec = st->step->spec;
        int r;

        st->timeout_s = DEFAULT_TIMEOUT_S;
        if ((r = json_field_text(spec, "start_cmd", &st->start_cmd, err)) < 0 ||
            (r = json_field_text(spec, "ready_cmd", &st->ready_cmd, err)) < 0 ||
            (r = json_field_text(spec, "user", &st->user, err)) < 0 ||
            (r = json_field_text(spec, "workdir", &st->workdir, err)) < 0 ||
            (r = json_field_text_map(spec, "env", &st->env, err)) < 0 ||
            (r = json_field_int(spec, "ready_timeout_s", 1, TIMEOUT_S_MAX, &st->timeout_s, err)) < 0)
                return r;
        if (!st->user)
                return err_set(err, ERR_INVALID, "a step of kind 'start' needs 'user'");
        if (st->start_cmd && !st->start_cmd[0])
                st->start_cmd = NULL;
        if (st->ready_cmd && !st->ready_cmd[0])
                st->ready_cmd = NULL;
        if (st->start_cmd && !st->ready_cmd)
                st->ready_cmd = DEFAULT_READY;
        return 0;
}

static int start_command(struct start_step *st, struct err *err)
{
        struct envd_process_options opt = {.token = st->step->token,
                                           .user = st->user,
                                           .cwd = st->workdir,
                                           .cmd = "/bin/sh",
                                           .args = command_shell_args(st->start_cmd),
                                           .env = st->env,
                                           .on_output = start_on_output,
                                           .on_end = start_on_end,
                                           .arg = st};
        int r = opt.args ? envd_process_start(st->step->envd, &opt, &st->process, err)
                         : err_set(err, ERR_LIMIT, "out of memory");

        json_decref(opt.args);
        return r;
}

static int start_begin(struct step *s, struct err *err)
{
        struct start_step *st = s->own = calloc(1, sizeof(*st));
        int r;

        if (!st)
                return err_set(err, ERR_LIMIT, "out of memory");
        *st = (struct start_step){.step = s,
                                  .next.on = check_is_due,
                                  .deadline.on = start_is_late,
                                  .output = BUF_INIT(OUTPUT_MAX),
                                  .last_output = BUF_INIT(OUTPUT_MAX)};
        step_log_stream(&s->log, LOG_START_OUT, "[start] [stdout]: ", "info");
        step_log_stream(&s->log, LOG_START_ERR, "[start] [stderr]: ", "info");
        step_log_stream(&s->log, LOG_READY_OUT, "[ready] [stdout]: ", "debug");
        step_log_stream(&s->log, LOG_READY_ERR, "[ready] [stderr]: ", "debug");
        r = start_decode(st, err);
        if (r < 0)
                return r;
        if (!st->ready_cmd) {
                step_succeed(s, NULL);
                return 0;
        }
        if (ready_check_of(st->ready_cmd, &st->check) < 0)
                return err_set(err, ERR_LIMIT, "out of memory, or a ready command that is too long");
        r = step_envd_client(s, TAKE_FD(s->second), &st->second, err);
        if (r == 0 && st->start_cmd)
                r = start_command(st, err);
        if (r < 0)
                return r;
        timer_set(s->loop, &st->deadline, (uint64_t)st->timeout_s * 1000);
        timer_set(s->loop, &st->next, 0);
        return 0;
}

static void start_done(struct step *s)
{
        struct start_step *st = s->own;

        if (!st)
                return;
        timer_clear(&st->next);
        timer_clear(&st->deadline);
        st->process = envd_process_free(st->process);
        st->checking = envd_process_free(st->checking);
        st->second = http_client_free(st->second);
        ready_check_done(&st->check);
        buf_done(&st->output);
        buf_done(&st->last_output);
        free(st);
}

const struct step_kind step_start = {.name = "start", .fds = 2, .begin = start_begin, .done = start_done};
