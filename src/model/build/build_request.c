#include "model/build/build_request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/str.h"
#include "model/build/build_names.h"
#include "model/build/ready_command.h"
#include "model/json_field.h"
#include "model/template_ref.h"

#define STAGE_NAME_MAX 128u
#define FROM_MAX 1024u /* bytes of an image's name */

void build_request_done(struct build_request *r)
{
        for (size_t i = 0; i < r->stage_count; i++) {
                free(r->stages[i].steps);
                free(r->stages[i].from_text);
        }
        free(r->stages);
        free(r->start_cmd);
        free(r->ready_cmd);
        json_decref(r->json);
        *r = (struct build_request){0};
}

/* ---- steps ---- */

const char *build_step_name(enum build_step_type type)
{
        static const char *const names[] = {
                [STEP_COPY] = "COPY",       [STEP_RUN] = "RUN",   [STEP_ENV] = "ENV",
                [STEP_WORKDIR] = "WORKDIR", [STEP_USER] = "USER",
        };

        return names[type];
}

const char *build_step_arg(const struct build_step *s, size_t n)
{
        const char *text = json_string_value(json_array_get(s->args, n));

        return text ? text : "";
}

static int step_decode_type(const json_t *v, enum build_step_type *ret, struct err *err)
{
        static const struct {
                const char *name;
                enum build_step_type type;
        } types[] = {
                {"COPY", STEP_COPY}, {"ADD", STEP_COPY},  {"RUN", STEP_RUN},         {"ENV", STEP_ENV},
                {"ARG", STEP_ENV},   {"USER", STEP_USER}, {"WORKDIR", STEP_WORKDIR},
        };
        const char *text = NULL;

        if (json_field_text(v, "type", &text, err) < 0)
                return -EINVAL;
        if (!text || !text[0])
                return err_set(err, ERR_INVALID, "validation error: field 'type' is required");
        for (size_t i = 0; i < ARRAY_LEN(types); i++)
                if (str_iis(str_of(text), types[i].name)) {
                        *ret = types[i].type;
                        return 0;
                }
        return err_set(err, ERR_INVALID, "command type %.60s is not implemented", text);
}

static int step_check_copy(const struct build_step *s, struct err *err)
{
        size_t n = json_array_size(s->args);
        int sources = !!s->files_hash + !!s->from_stage + !!s->from_image;

        if (n < 2 || n > 4 || !build_step_arg(s, 0)[0] || !build_step_arg(s, 1)[0])
                return err_set(err, ERR_INVALID,
                               "COPY requires a source and a destination, and may have an owner and a mode");
        if (sources == 0)
                return err_set(err, ERR_INVALID, "COPY requires files hash to be set");
        if (sources > 1)
                return err_set(err, ERR_INVALID, "COPY has one source: filesHash, fromStage or fromImage");
        if (s->files_hash && !build_hash_is_valid(s->files_hash))
                return err_set(err, ERR_INVALID, "Invalid files hash");
        if (!s->files_hash && build_step_arg(s, 0)[0] != '/')
                return err_set(err, ERR_INVALID, "COPY from a stage or an image requires an absolute source");
        if (build_step_arg(s, 3)[0] && !build_mode_is_valid(build_step_arg(s, 3)))
                return err_set(err, ERR_INVALID, "COPY has the mode '%.20s', which is not octal", build_step_arg(s, 3));
        return 0;
}

static int step_check_env(const struct build_step *s, struct err *err)
{
        size_t n = json_array_size(s->args);

        if (n % 2)
                return err_set(err, ERR_INVALID, "ENV requires a value for each name");
        for (size_t i = 0; i < n; i += 2)
                if (!build_step_arg(s, i)[0] || strchr(build_step_arg(s, i), '='))
                        return err_set(err, ERR_INVALID,
                                       "ENV has the name '%.60s': names are not empty and have no '='",
                                       build_step_arg(s, i));
        return 0;
}

static int step_check_args(const struct build_step *s, struct err *err)
{
        size_t n = json_array_size(s->args);

        switch (s->type) {
        case STEP_COPY: return step_check_copy(s, err);
        case STEP_ENV: return step_check_env(s, err);
        case STEP_RUN:
                if (n < 1 || n > 2 || !build_step_arg(s, 0)[0])
                        return err_set(err, ERR_INVALID, "RUN requires a command, and may have a user");
                return 0;
        case STEP_WORKDIR:
                if (n != 1 || !build_step_arg(s, 0)[0])
                        return err_set(err, ERR_INVALID, "WORKDIR requires one path");
                return 0;
        case STEP_USER:
                if (n != 1 || !build_step_arg(s, 0)[0])
                        return err_set(err, ERR_INVALID, "USER requires one name");
                return 0;
        }
        return 0;
}

static int step_check_sizes(const struct build_step *s, struct err *err)
{
        size_t i;
        json_t *v;

        json_array_foreach (s->args, i, v)
                if (json_string_length(v) > BUILD_COMMAND_MAX)
                        return err_set(err, ERR_INVALID, "validation error: field 'args[%zu]' is larger than %u bytes",
                                       i, BUILD_COMMAND_MAX);
        return 0;
}

static int step_decode(const json_t *v, struct build_step *ret, struct err *err)
{
        struct build_step s = {0};

        if (!json_is_object(v))
                return err_set(err, ERR_INVALID, "must be an object");
        if (step_decode_type(v, &s.type, err) < 0 ||
            json_field_text_list(v, "args", BUILD_ARGS_MAX, &s.args, err) < 0 ||
            json_field_text(v, "filesHash", &s.files_hash, err) < 0 ||
            json_field_text(v, "fromStage", &s.from_stage, err) < 0 ||
            json_field_text(v, "fromImage", &s.from_image, err) < 0 ||
            json_field_text_list(v, "shell", BUILD_SHELL_MAX, &s.shell, err) < 0 ||
            json_field_bool(v, "literal", &s.is_literal, err) < 0 || json_field_bool(v, "force", &s.force, err) < 0)
                return -EINVAL;
        if (s.files_hash && !s.files_hash[0])
                s.files_hash = NULL; /* some clients send it for every step */
        if (s.type != STEP_COPY && (s.from_stage || s.from_image))
                return err_set(err, ERR_INVALID, "only COPY can have fromStage or fromImage");
        if (s.is_literal && s.type != STEP_ENV)
                return err_set(err, ERR_INVALID, "only ENV can be literal");
        if (s.shell && (s.type != STEP_RUN || json_array_size(s.shell) == 0))
                return err_set(err, ERR_INVALID, "only RUN can have a shell, and it is not empty");
        if (step_check_sizes(&s, err) < 0 || step_check_args(&s, err) < 0)
                return -EINVAL;
        *ret = s;
        return 0;
}

/* ---- stages ---- */

static int stage_index(const struct build_request *r, const char *name, size_t *ret, struct err *err)
{
        for (size_t i = 0; i < r->stage_count; i++)
                if (strcmp(r->stages[i].name, name) == 0 && name[0]) {
                        *ret = i;
                        return 0;
                }
        return err_set(err, ERR_INVALID, "there is no stage '%.60s' before this one", name);
}

static int stage_decode_steps(const json_t *v, const struct build_request *r, struct build_stage *st, struct err *err)
{
        json_t *steps = NULL, *one;
        size_t i;

        if (json_field_array(v, "steps", &steps, err) < 0)
                return -EINVAL;
        if (json_array_size(steps) > BUILD_STEPS_MAX)
                return err_set(err, ERR_INVALID, "validation error: field 'steps' has more than %d items",
                               BUILD_STEPS_MAX);
        st->steps = calloc(json_array_size(steps) + 1, sizeof(*st->steps));
        if (!st->steps)
                return err_sys(err, -ENOMEM, "build request");
        json_array_foreach (steps, i, one) {
                struct build_step *s = &st->steps[i];

                if (step_decode(one, s, err) < 0 ||
                    (s->from_stage && stage_index(r, s->from_stage, &s->from_stage_index, err) < 0))
                        return err_wrap(err, "step %zu", i + 1);
                st->step_count = i + 1;
        }
        return 0;
}

/* What is before the first space: some clients send "node:18 AS builder". */
static int stage_take_image(struct build_stage *st, const char *text, struct err *err)
{
        struct str rest = str_trim(str_of(text)), name;

        (void)str_cut(&rest, ' ', &name);
        if (name.n == 0 || name.n > FROM_MAX)
                return err_set(err, ERR_INVALID, "validation error: field 'fromImage' must have 1 to %u characters",
                               FROM_MAX);
        st->from_text = str_dup(name);
        st->from = st->from_text;
        return st->from ? 0 : err_sys(err, -ENOMEM, "build request");
}

static int stage_decode_from(const json_t *v, const struct build_request *r, struct build_stage *st, struct err *err)
{
        const char *image = NULL, *template = NULL, *stage = NULL;
        struct template_ref ref;
        struct err why = {0};

        if (json_field_text(v, "fromImage", &image, err) < 0 ||
            json_field_text(v, "fromTemplate", &template, err) < 0 || json_field_text(v, "fromStage", &stage, err) < 0)
                return -EINVAL;
        if (!!image + !!template + !!stage != 1)
                return err_set(err, ERR_INVALID, "must specify either fromImage or fromTemplate%s",
                               image || template || stage ? ", and not both" : "");
        if (stage) {
                st->from_kind = FROM_STAGE;
                st->from = stage;
                return stage_index(r, stage, &st->from_stage_index, err);
        }
        if (image) {
                st->from_kind = FROM_IMAGE;
                return stage_take_image(st, image, err);
        }
        if (template_ref_parse(str_of(template), &ref, &why) < 0)
                return err_set(err, ERR_INVALID, "Invalid fromTemplate: %s", why.msg);
        st->from_kind = FROM_TEMPLATE;
        st->from = template;
        return 0;
}

static int stage_decode_name(const json_t *v, const struct build_request *r, struct build_stage *st, struct err *err)
{
        size_t same;

        if (json_field_text(v, "name", &st->name, err) < 0)
                return -EINVAL;
        if (!st->name || !st->name[0] || strlen(st->name) > STAGE_NAME_MAX)
                return err_set(err, ERR_INVALID, "a stage has a name of 1 to %u bytes", STAGE_NAME_MAX);
        if (stage_index(r, st->name, &same, NULL) == 0)
                return err_set(err, ERR_INVALID, "there are two stages '%.60s'", st->name);
        return 0;
}

/* `st` is released with the request, also when it is half-decoded: it counts from here on. */
static int stage_decode(const json_t *v, struct build_request *r, bool is_final, struct err *err)
{
        struct build_stage *st = &r->stages[r->stage_count];
        int res = 0;

        st->name = "";
        if (!is_final && !json_is_object(v))
                return err_set(err, ERR_INVALID, "must be an object");
        if (!is_final)
                res = stage_decode_name(v, r, st, err);
        if (res == 0)
                res = stage_decode_from(v, r, st, err);
        if (res == 0)
                res = stage_decode_steps(v, r, st, err);
        r->stage_count++;
        return res;
}

static int decode_stages(struct build_request *r, struct err *err)
{
        json_t *stages = NULL, *one;
        size_t i;

        if (json_field_array(r->json, "stages", &stages, err) < 0)
                return -EINVAL;
        if (json_array_size(stages) > BUILD_STAGES_MAX)
                return err_set(err, ERR_INVALID, "validation error: field 'stages' has more than %d items",
                               BUILD_STAGES_MAX);
        r->stages = calloc(json_array_size(stages) + 1, sizeof(*r->stages));
        if (!r->stages)
                return err_sys(err, -ENOMEM, "build request");
        json_array_foreach (stages, i, one)
                if (stage_decode(one, r, false, err) < 0)
                        return err_wrap(err, "stage %zu", i + 1);
        return stage_decode(r->json, r, true, err);
}

/* ---- the rest ---- */

static int decode_registry(struct build_request *r, struct err *err)
{
        static const struct {
                const char *type;
                const char *fields[3];
        } kinds[] = {
                {"registry", {"username", "password"}},
                {"aws", {"awsAccessKeyId", "awsSecretAccessKey", "awsRegion"}},
                {"gcp", {"serviceAccountJson"}},
        };
        const char *type = NULL;

        if (json_field_object(r->json, "fromImageRegistry", &r->registry, err) < 0)
                return -EINVAL;
        if (!r->registry)
                return 0;
        if (json_field_text(r->registry, "type", &type, err) < 0)
                return err_wrap(err, "fromImageRegistry");
        for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
                if (!type || strcmp(type, kinds[i].type) != 0)
                        continue;
                for (size_t k = 0; k < ARRAY_LEN(kinds[i].fields) && kinds[i].fields[k]; k++)
                        if (!json_string_value(json_object_get(r->registry, kinds[i].fields[k])))
                                return err_set(err, ERR_INVALID,
                                               "validation error: field 'fromImageRegistry.%s' must be a string",
                                               kinds[i].fields[k]);
                return 0;
        }
        return err_set(err, ERR_INVALID,
                       "validation error: field 'fromImageRegistry.type' must be 'registry', 'aws' or 'gcp'");
}

static int decode_commands(struct build_request *r, struct err *err)
{
        const char *start = NULL;

        if (json_field_text(r->json, "startCmd", &start, err) < 0)
                return -EINVAL;
        if (start && strlen(start) > BUILD_COMMAND_MAX)
                return err_set(err, ERR_INVALID, "validation error: field 'startCmd' is larger than %u bytes",
                               BUILD_COMMAND_MAX);
        if (start && start[0] && !(r->start_cmd = strdup(start)))
                return err_sys(err, -ENOMEM, "build request");
        return ready_command_of(json_object_get(r->json, "readyCmd"), &r->ready_cmd, err);
}

static int decode_numbers(struct build_request *r, struct err *err)
{
        int64_t cpus = 0, memory = 0;

        if (json_field_bool(r->json, "force", &r->force, err) < 0 ||
            json_field_bool(r->json, "rootDefault", &r->is_root_default, err) < 0 ||
            json_field_int(r->json, "cpuCount", INT32_MIN, INT32_MAX, &cpus, err) < 0 ||
            json_field_int(r->json, "memoryMB", INT32_MIN, INT32_MAX, &memory, err) < 0)
                return -EINVAL;
        if ((json_field_is_set(r->json, "cpuCount") && build_check_cpus(cpus, BUILD_CPUS_MAX, err) < 0) ||
            (json_field_is_set(r->json, "memoryMB") && build_check_memory(memory, INT32_MAX, err) < 0))
                return -EINVAL;
        r->cpu_count = (uint32_t)cpus;
        r->memory_mb = (uint32_t)memory;
        return 0;
}

int build_request_decode(const json_t *body, struct build_request *ret, struct err *err)
{
        struct build_request r = {0};
        int res;

        if (!json_is_object(body))
                return err_set(err, ERR_INVALID, "validation error: the body must be an object");
        r.json = json_deep_copy(body);
        if (!r.json)
                return err_sys(err, -ENOMEM, "build request");
        if ((res = decode_stages(&r, err)) < 0 || (res = decode_registry(&r, err)) < 0 ||
            (res = decode_commands(&r, err)) < 0 || (res = decode_numbers(&r, err)) < 0) {
                build_request_done(&r);
                return res;
        }
        *ret = r;
        return 0;
}
