#include "base/err.h"
#include "fuzz.h"
#include "model/build/build_key.h"
#include "model/build/build_names.h"
#include "model/build/build_request.h"
#include "model/build/template_request.h"

static void step_must_be_sound(const struct build_request *r, size_t stage, const struct build_step *s)
{
        struct build_key key;

        if (s->type == STEP_COPY) {
                MUST(!!s->files_hash + !!s->from_stage + !!s->from_image == 1);
                MUST(!s->files_hash || build_hash_is_valid(s->files_hash));
                MUST(!s->from_stage || s->from_stage_index < stage);
                MUST(json_array_size(s->args) >= 2);
        }
        MUST(s->type != STEP_ENV || json_array_size(s->args) % 2 == 0);
        MUST(s->type != STEP_RUN || build_step_arg(s, 0)[0]);
        build_key_base("image", r->stages[stage].from, "", &key);
        build_key_step(&key, s, NULL, &key);
        MUST(build_hash_is_valid(key.hex));
}

static void must_be_sound(const struct build_request *r)
{
        MUST(r->stage_count >= 1 && r->stage_count <= BUILD_STAGES_MAX + 1);
        for (size_t i = 0; i < r->stage_count; i++) {
                const struct build_stage *st = &r->stages[i];

                MUST(st->from && st->from[0]);
                MUST(st->from_kind != FROM_STAGE || st->from_stage_index < i);
                MUST(!st->name[0] == (i == r->stage_count - 1));
                for (size_t k = 0; k < st->step_count; k++)
                        step_must_be_sound(r, i, &st->steps[k]);
        }
        MUST(!r->ready_cmd || r->ready_cmd[0]);
}

/* What is kept in the row decodes to the same. */
static void start_request(const json_t *body)
{
        struct build_request r, again;
        struct err err = {0};

        if (build_request_decode(body, &r, &err) < 0) {
                MUST(err.kind != ERR_NONE && err.msg[0]);
                return;
        }
        must_be_sound(&r);
        MUST(build_request_decode(r.json, &again, &err) == 0 && again.stage_count == r.stage_count);
        build_request_done(&again);
        build_request_done(&r);
}

static void new_template(const json_t *body)
{
        const struct template_request_limits limits = {.slug = "team",
                                                       .default_cpus = 2,
                                                       .default_memory_mb = 1024,
                                                       .cpus_max = 32,
                                                       .memory_max_mb = 4096,
                                                       .disk_max_mb = 4096};
        struct template_request r;
        struct err err = {0};

        if (template_request_decode(body, &limits, &r, &err) < 0) {
                MUST(err.kind != ERR_NONE && err.msg[0]);
                return;
        }
        MUST(r.name.name[0] && json_array_size(r.tags) >= 1 && r.cpu_count >= 1 && r.memory_mb >= 128);
        template_request_done(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        json_t *body = json_loadb((const char *)data, size, 0, NULL);

        if (!body)
                return 0;
        start_request(body);
        new_template(body);
        json_decref(body);
        return 0;
}
