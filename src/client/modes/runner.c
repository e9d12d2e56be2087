/* The functions of sandglass-modes.h that are about a runner. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "client/modes/place.h"
#include "client/modes/workers.h"

#define WORKSPACE_DEFAULT "workspace"
#define READ_MAX_DEFAULT ((size_t)64 << 20)

struct sg_runner {
        enum sg_mode mode;
        struct place *here;     /* owned; NULL in mode e2b */
        struct workers workers; /* none in mode local */
        struct environment env; /* what programs get in sandboxes; here they also get the usual */
        struct environment env_here;
};

static void runner_free(struct sg_runner *r)
{
        if (r->here)
                r->here->ops->free(r->here);
        workers_done(&r->workers);
        environment_done(&r->env);
        environment_done(&r->env_here);
        free(r);
}

/* ---- opening ---- */

static int check_options(const struct sg_runner_options *o, enum sg_mode mode, struct sg_error *err)
{
        for (size_t i = 0; i < ARRAY_LEN(o->reserved); i++)
                if (o->reserved[i])
                        return error_set(err, SG_INVALID, "a reserved field of the options is not zero");
        if ((unsigned)o->mode > SG_MODE_HYBRID)
                return error_set(err, SG_INVALID, "there is no mode %u", (unsigned)o->mode);
        if (o->sandbox_id && mode != SG_MODE_E2B)
                return error_set(err, SG_INVALID, "sandbox_id is for mode e2b, not for %s", sg_mode_name(mode));
        return 0;
}

static int open_environment(struct sg_runner *r, const struct sg_runner_options *o, struct sg_error *err)
{
        const char *const *names = o->pass_env ? o->pass_env : environment_default_names;
        int e = environment_pass_usual(&r->env_here, err);

        if (e == 0)
                e = environment_pass(&r->env_here, names, err);
        if (e == 0)
                e = environment_add(&r->env_here, o->env, err);
        if (e == 0)
                e = environment_pass(&r->env, names, err);
        return e < 0 ? e : environment_add(&r->env, o->env, err);
}

static int open_places(struct sg_runner *r, const struct sg_runner_options *o, const struct sg_call *call,
                       struct sg_error *err)
{
        struct place *place;
        struct limit limit;
        int e = limit_begin(&limit, call, SG_NO_TIMEOUT, err);

        if (e == 0 && r->mode != SG_MODE_E2B)
                e = local_place_create(o->workspace ? o->workspace : WORKSPACE_DEFAULT, &r->here, err);
        if (e == 0 && r->mode == SG_MODE_E2B)
                e = worker_take(&r->workers, "", o->sandbox_id, &limit, &place, err);
        return e;
}

int sg_runner_open(const struct sg_runner_options *options, const struct sg_call *call, struct sg_runner **ret,
                   struct sg_error *err)
{
        static const struct sg_runner_options usual;
        const struct sg_runner_options *o = options ? options : &usual;
        enum sg_mode mode = o->mode == SG_MODE_BY_ENVIRONMENT ? environment_mode() : o->mode;
        struct sg_runner *r;
        int e = check_options(o, mode, err);

        if (e < 0)
                return e;
        r = calloc(1, sizeof(*r));
        if (!r)
                return error_no_memory(err);
        r->mode = mode;
        e = workers_init(&r->workers, o, err);
        if (e == 0)
                e = open_environment(r, o, err);
        if (e == 0)
                e = open_places(r, o, call, err);
        if (e < 0) {
                runner_free(r);
                return e;
        }
        *ret = r;
        return 0;
}

/* ---- what there is ---- */

enum sg_mode sg_runner_mode(const struct sg_runner *runner)
{
        return runner->mode;
}

static bool is_here(const struct sg_runner *r, const char *worker)
{
        return r->mode == SG_MODE_LOCAL || (r->mode == SG_MODE_HYBRID && !worker);
}

/* Mode e2b has one sandbox for all names. */
static const char *name_of(const struct sg_runner *r, const char *worker)
{
        return r->mode == SG_MODE_E2B ? "" : worker;
}

const char *sg_runner_workspace(const struct sg_runner *runner, const char *worker)
{
        return is_here(runner, worker) ? runner->here->workspace : runner->workers.workspace;
}

struct sg_sandbox *sg_runner_sandbox(struct sg_runner *runner, const char *worker)
{
        struct place *place = is_here(runner, worker) ? NULL : worker_find(&runner->workers, name_of(runner, worker));

        return place ? sandbox_place_box(place) : NULL;
}

static int take(struct sg_runner *r, const char *worker, struct limit *limit, struct place **ret, struct sg_error *err)
{
        int e = worker ? worker_check_name(worker, err) : 0;

        if (e < 0)
                return e;
        if (!is_here(r, worker))
                return worker_take(&r->workers, name_of(r, worker), NULL, limit, ret, err);
        *ret = r->here;
        return 0;
}

/* ---- programs ---- */

static int check_program(const struct sg_program *p, struct sg_error *err)
{
        for (size_t i = 0; i < ARRAY_LEN(p->reserved); i++)
                if (p->reserved[i])
                        return error_set(err, SG_INVALID, "a reserved field of the program is not zero");
        if (!p->argv || !p->argv[0] || !p->argv[0][0])
                return error_set(err, SG_INVALID, "the program has no name");
        if (p->reads_fd && (p->input || p->input_fd < 0))
                return error_set(err, SG_INVALID, "the program reads bytes or a file descriptor, not both");
        if (check_bytes(p->input, p->input_len, "input", err) < 0)
                return -EINVAL;
        if (p->line_max > SIZE_MAX / 8)
                return error_set(err, SG_INVALID, "line_max is too large");
        return p->cwd ? place_path_check(p->cwd, err) : 0;
}

static int run_at(struct sg_runner *r, struct place *place, const struct sg_program *program,
                  struct program_output *output, struct limit *limit, struct sg_error *err)
{
        AUTO(environment_done) struct environment env = {0};
        const struct environment *base = place == r->here ? &r->env_here : &r->env;
        int e = environment_add(&env, base->pairs, err);

        if (e == 0)
                e = environment_add(&env, program->env, err);
        return e < 0 ? e : place->ops->run(place, program, &env, output, limit, err);
}

int sg_runner_run(struct sg_runner *runner, const struct sg_program *program, const struct sg_call *call,
                  struct sg_program_end *ret, struct sg_error *err)
{
        AUTO(program_output_done) struct program_output output = {0};
        struct place *place;
        struct limit limit;
        int e = check_program(program, err);

        if (e == 0)
                e = limit_begin(&limit, call, SG_NO_TIMEOUT, err);
        if (e == 0)
                e = take(runner, program->worker, &limit, &place, err);
        if (e < 0)
                return e;
        program_output_init(&output, program);
        e = run_at(runner, place, program, &output, &limit, err);
        if (e == 0 && ret)
                *ret = output.end;
        return e;
}

/* ---- files ---- */

/* How long files may take when the caller names no limit. */
#define FILE_TIMEOUT_MS 60000u

int sg_runner_write(struct sg_runner *runner, const char *worker, const char *path, const void *bytes, size_t len,
                    const struct sg_call *call, struct sg_error *err)
{
        struct place *place;
        struct limit limit;
        int e = place_path_check(path, err);

        if (e == 0)
                e = check_bytes(bytes, len, "what is to be written", err);
        if (e == 0)
                e = limit_begin(&limit, call, FILE_TIMEOUT_MS, err);
        if (e == 0)
                e = take(runner, worker, &limit, &place, err);
        return e < 0 ? e : place->ops->write(place, path, (struct str){bytes ? bytes : "", len}, &limit, err);
}

int sg_runner_read(struct sg_runner *runner, const char *worker, const char *path, size_t max,
                   const struct sg_call *call, char **ret, size_t *ret_len, struct sg_error *err)
{
        struct place *place;
        struct limit limit;
        size_t len = 0;
        int e = place_path_check(path, err);

        if (e == 0)
                e = limit_begin(&limit, call, FILE_TIMEOUT_MS, err);
        if (e == 0)
                e = take(runner, worker, &limit, &place, err);
        if (e == 0)
                e = place->ops->read(place, path, max ? max : READ_MAX_DEFAULT, &limit, ret, &len, err);
        if (e == 0 && ret_len)
                *ret_len = len;
        return e;
}

/* ---- pausing and the end ---- */

int sg_runner_pause(struct sg_runner *runner, const struct sg_call *call, struct sg_error *err)
{
        return workers_pause(&runner->workers, call, err);
}

int sg_runner_resume(struct sg_runner *runner, const struct sg_call *call, struct sg_error *err)
{
        return workers_resume(&runner->workers, call, err);
}

int sg_runner_close(struct sg_runner *runner, enum sg_close how, const struct sg_call *call, struct sg_error *err)
{
        int e = 0;

        if (!runner)
                return 0;
        if (how == SG_CLOSE_KILL)
                e = workers_kill(&runner->workers, call, err);
        else if (how == SG_CLOSE_PAUSE)
                e = workers_pause(&runner->workers, call, err);
        runner_free(runner);
        return e;
}
