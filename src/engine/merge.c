#include "engine/merge.h"

#include "base/err.h"
#include "engine/guest/ask.h"
#include "engine/guest/engine.h"
#include "model/ids.h"
#include "model/plan.h"

static bool is_sealed_name(const json_t *v)
{
        return json_is_string(v) && sealed_id_is_valid((struct str){json_string_value(v), json_string_length(v)});
}

static int check_merge(const json_t *layers, const json_t *into, struct err *err)
{
        size_t n = json_array_size(layers);

        if (n < 1 || n > PLAN_LAYERS_MAX)
                return err_set(err, ERR_INVALID, "layers: not a list of 1 to %d", PLAN_LAYERS_MAX);
        for (size_t i = 0; i < n; i++)
                if (!is_sealed_name(json_array_get(layers, i)))
                        return err_set(err, ERR_INVALID, "layers[%zu]: not a sealed layer's id", i);
        return is_sealed_name(into) ? 0 : err_set(err, ERR_INVALID, "into: not a sealed layer's id");
}

static void merge_answer(void *arg, const struct layer_merge_count *count, const struct err *err)
{
        struct ask *a = arg;

        if (err->kind != ERR_NONE)
                ask_fail(a, err);
        else
                ask_ok(a,
                       json_pack("{s:I,s:I}", "directories", (json_int_t)count->directories, "files",
                                 (json_int_t)count->files),
                       -1);
}

int merge_request(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        const json_t *layers = json_object_get(msg, "layers"), *into = json_object_get(msg, "into");
        const char *names[PLAN_LAYERS_MAX];
        int r = check_merge(layers, into, err);

        if (r < 0)
                return r;
        for (size_t i = 0; i < json_array_size(layers); i++)
                names[i] = json_string_value(json_array_get(layers, i));
        return layer_merger_merge(&e->layer_merger, names, json_array_size(layers), json_string_value(into),
                                  merge_answer, a, err);
}
