/* step_run.c - a command of a build, as a user, in a directory, with variables. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "builder/command.h"
#include "envd_client/envd_process.h"
#include "builder/step.h"
#include "model/json_field.h"

#define TIMEOUT_S_MAX (24 * 3600)
#define SHELL_WORDS_MAX 64

struct run_step {
        const char *cmd; /* borrowed from the spec */
        int64_t timeout_s;
        struct envd_process *process; /* owned */
};

static void run_on_output(const struct envd_piece *piece, void *arg)
{
        struct step *s = arg;

        step_log_bytes(&s->log, piece->kind == ENVD_STDERR, piece->bytes);
}

static void run_on_end(const struct envd_process_end *end, void *arg)
{
        struct step *s = arg;
        struct run_step *run = s->own;
        char words[COMMAND_WORDS_MAX];
        struct err err = {0};

        switch (end->err.kind) {
        case ERR_NONE:
                if (end->exit_code == 0) {
                        step_succeed(s, NULL);
                        return;
                }
                (void)err_set(&err, ERR_INVALID, "failed to run command '%s': %s", command_words(run->cmd, words),
                              end->status);
                break;
        case ERR_INVALID:
                (void)err_set(&err, ERR_INVALID, "failed to run command '%s': command failed: %s",
                              command_words(run->cmd, words), end->err.msg);
                break;
        case ERR_TIMEOUT:
                (void)err_set(&err, ERR_TIMEOUT, "failed to run command '%s': timed out after %lld s",
                              command_words(run->cmd, words), (long long)run->timeout_s);
                break;
        default: step_fail_envd(s, &end->err); return;
        }
        step_fail(s, &err);
}

/* ["/bin/ash", "-c"] and the command: the first word is the program. */
static json_t *args_of_shell(const json_t *shell, const char *cmd)
{
        json_t *args = json_array();

        for (size_t i = 1; args && i < json_array_size(shell); i++)
                if (json_array_append(args, json_array_get(shell, i)) < 0)
                        goto fail;
        if (args && json_array_append_new(args, json_string(cmd)) == 0)
                return args;
fail:
        json_decref(args);
        return NULL;
}

static int run_start(struct step *s, struct envd_process_options *opt, json_t *shell, struct err *err)
{
        struct run_step *run = s->own;
        int r;

        opt->cmd = shell ? json_string_value(json_array_get(shell, 0)) : "/bin/sh";
        opt->args = shell ? args_of_shell(shell, run->cmd) : command_shell_args(run->cmd);
        if (!opt->args)
                return err_set(err, ERR_LIMIT, "out of memory");
        r = envd_process_start(s->envd, opt, &run->process, err);
        json_decref(opt->args);
        return r;
}

static int run_begin(struct step *s, struct err *err)
{
        struct envd_process_options opt = {
                .token = s->token, .on_output = run_on_output, .on_end = run_on_end, .arg = s};
        struct run_step *run = s->own = calloc(1, sizeof(*run));
        json_t *shell = NULL;
        int r;

        if (!run)
                return err_set(err, ERR_LIMIT, "out of memory");
        if ((r = json_field_text(s->spec, "cmd", &run->cmd, err)) < 0 ||
            (r = json_field_text(s->spec, "user", &opt.user, err)) < 0 ||
            (r = json_field_text(s->spec, "workdir", &opt.cwd, err)) < 0 ||
            (r = json_field_text_map(s->spec, "env", &opt.env, err)) < 0 ||
            (r = json_field_text_list(s->spec, "shell", SHELL_WORDS_MAX, &shell, err)) < 0 ||
            (r = json_field_int(s->spec, "timeout_s", 0, TIMEOUT_S_MAX, &run->timeout_s, err)) < 0)
                return r;
        if (!run->cmd || !opt.user)
                return err_set(err, ERR_INVALID, "a step of kind 'run' needs 'cmd' and 'user'");
        if (shell && json_array_size(shell) == 0)
                return err_set(err, ERR_INVALID, "'shell' has no words");
        opt.timeout_s = (uint32_t)run->timeout_s;
        return run_start(s, &opt, shell, err);
}

static void run_done(struct step *s)
{
        struct run_step *run = s->own;

        if (run)
                run->process = envd_process_free(run->process);
        free(run);
}

const struct step_kind step_run = {.name = "run", .fds = 1, .begin = run_begin, .done = run_done};
