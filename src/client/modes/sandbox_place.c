/* A sandbox, by the library's own functions. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/modes/place.h"

#define END_TIMEOUT_MS 10000u

struct sandbox_place {
        struct place place;
        struct sg_sandbox *box; /* owned */
};

static struct sandbox_place *sandbox_of(struct place *place)
{
        return CONTAINER_OF(place, struct sandbox_place, place);
}

struct sg_sandbox *sandbox_place_box(struct place *place)
{
        return sandbox_of(place)->box;
}

static char *path_of(const struct place *place, const char *below)
{
        char *path;

        if (!below)
                return strdup(place->workspace);
        return asprintf(&path, "%s/%s", place->workspace, below) < 0 ? NULL : path;
}

static int on_out(const char *bytes, size_t len, void *arg)
{
        return program_output_feed(arg, false, (struct str){bytes, len}, NULL);
}

static int on_err(const char *bytes, size_t len, void *arg)
{
        return program_output_feed(arg, true, (struct str){bytes, len}, NULL);
}

/* The process group, with a second between asking and killing, all of it inside of the sandbox.  A sandbox that cannot be
 * reached now is not ours to end. */
static void end_group(struct sg_sandbox *box, uint32_t pid)
{
        static const char script[] = "kill -TERM -$1 2>/dev/null || exit 0\n"
                                     "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1; kill -0 -$1 2>/dev/null || exit 0; "
                                     "done\n"
                                     "kill -KILL -$1 2>/dev/null";
        const struct sg_call call = {.timeout_ms = END_TIMEOUT_MS};
        struct sg_result *result;
        char number[16];

        (void)snprintf(number, sizeof(number), "%" PRIu32, pid);
        if (sg_run_argv(box, (const char *[]){"/bin/sh", "-c", script, "sh", number, NULL}, NULL, &call, &result,
                        NULL) == 0)
                sg_free(result);
        else
                (void)sg_process_signal(box, pid, SIGKILL, &call, NULL);
}

static bool must_end(const struct sg_error *why)
{
        return why->kind == SG_TIMEOUT || why->kind == SG_CANCELLED || why->kind == SG_TOO_LARGE ||
               why->kind == SG_LIMIT;
}

static int wait_for(struct sandbox_place *s, struct sg_command *command, struct program_output *output,
                    struct limit *limit, struct sg_error *err)
{
        const struct sg_call call = place_call(limit);
        struct sg_error why = {0};
        struct sg_result *result;
        int r = sg_command_wait(command, &call, &result, &why);

        if (r < 0 && output->why.kind != SG_OK) /* a callback ended it: the reason is there */
                why = output->why;
        if (r < 0 && must_end(&why))
                end_group(s->box, sg_command_pid(command));
        if (r < 0)
                return error_pass(err, &why);
        output->end.exit_code = result->exit_code;
        output->end.signal = result->signal;
        sg_free(result);
        return program_output_finish(output, err);
}

static int sandbox_run(struct place *place, const struct sg_program *program, const struct environment *env,
                       struct program_output *output, struct limit *limit, struct sg_error *err)
{
        struct sandbox_place *s = sandbox_of(place);
        AUTO_FREE char *cwd = path_of(place, program->cwd);
        const struct sg_command_options options = {.env = env->pairs,
                                                   .cwd = cwd,
                                                   .timeout_ms = SG_NO_TIMEOUT,
                                                   .on_stdout = on_out,
                                                   .on_stderr = on_err,
                                                   .arg = output,
                                                   .input = program->input,
                                                   .input_len = program->input_len,
                                                   .reads_fd = program->reads_fd,
                                                   .input_fd = program->input_fd};
        const struct sg_call call = place_call(limit);
        struct sg_command *command;
        int r;

        if (!cwd)
                return error_no_memory(err);
        r = sg_command_start_argv(s->box, program->argv, &options, &call, &command, err);
        if (r < 0)
                return r;
        r = wait_for(s, command, output, limit, err);
        sg_command_free(command);
        return r;
}

static int sandbox_write(struct place *place, const char *path, struct str bytes, struct limit *limit,
                         struct sg_error *err)
{
        const struct sg_call call = place_call(limit);
        AUTO_FREE char *full = path_of(place, path);

        if (!full)
                return error_no_memory(err);
        return sg_file_write(sandbox_of(place)->box, full, bytes.p, bytes.n, NULL, &call, err);
}

static int sandbox_read(struct place *place, const char *path, size_t max, struct limit *limit, char **ret,
                        size_t *ret_len, struct sg_error *err)
{
        const struct sg_file_options options = {.max = max};
        const struct sg_call call = place_call(limit);
        AUTO_FREE char *full = path_of(place, path);

        if (!full)
                return error_no_memory(err);
        return sg_file_read(sandbox_of(place)->box, full, &options, &call, ret, ret_len, err);
}

static void sandbox_free(struct place *place)
{
        sg_sandbox_free(sandbox_of(place)->box);
        free(place->workspace);
        free(sandbox_of(place));
}

static const struct place_ops sandbox_ops = {
        .run = sandbox_run, .write = sandbox_write, .read = sandbox_read, .free = sandbox_free};

int sandbox_place_create(struct sg_sandbox *box, const char *workspace, struct limit *limit, struct place **ret,
                         struct sg_error *err)
{
        const struct sg_call call = place_call(limit);
        struct sandbox_place *s = calloc(1, sizeof(*s));
        struct sg_error why = {0};
        int r;

        if (!s) {
                sg_sandbox_free(box);
                return error_no_memory(err);
        }
        *s = (struct sandbox_place){.place = {.ops = &sandbox_ops, .workspace = strdup(workspace)}, .box = box};
        r = s->place.workspace ? sg_file_mkdir(box, workspace, NULL, &call, &why) : error_no_memory(&why);
        if (r < 0 && why.kind != SG_CONFLICT) { /* then it is there already */
                sandbox_free(&s->place);
                (void)error_pass(err, &why);
                return error_wrap(err, "make the workspace");
        }
        *ret = &s->place;
        return 0;
}
