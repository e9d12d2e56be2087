/* Contexts of the code interpreter: each has a kernel and variables of its own. */
#include "client/block.h"
#include "client/code/interpreter.h"

#define START_MS 120000u /* a kernel is started */
#define USUAL_MS 30000u

static const char *text_of(const json_t *obj, const char *key, void *block)
{
        return block_text(block, str_of(json_string_value(json_object_get(obj, key))));
}

static int read_context(const json_t *obj, void *block, struct sg_context *ret, struct sg_error *err)
{
        const char *id = json_string_value(json_object_get(obj, "id"));

        if (!id || !id[0])
                return error_set(err, SG_INTERNAL, "the code interpreter's answer describes no context");
        *ret = (struct sg_context){.id = text_of(obj, "id", block),
                                   .language = text_of(obj, "language", block),
                                   .cwd = text_of(obj, "cwd", block)};
        return ret->id && ret->language && ret->cwd ? 0 : error_no_memory(err);
}

int sg_context_create(struct sg_sandbox *box, const char *language, const char *cwd, const struct sg_call *call,
                      struct sg_context **ret, struct sg_error *err)
{
        AUTO(block_free_p) struct sg_context *made = NULL;
        json_t *body, *got = NULL;
        int r = language ? check_text(language, "the language", 256, err) : 0;

        if (r == 0 && cwd)
                r = check_text(cwd, "cwd", 4096, err);
        if (r < 0)
                return r;
        body = json_pack("{s:s*, s:s*}", "language", language, "cwd", cwd);
        if (!body)
                return error_no_memory(err);
        r = interpreter_call(
                box,
                &(struct interpreter_call){.method = "POST", .target = "/contexts", .body = body, .usual_ms = START_MS},
                call, &got, err);
        if (r < 0)
                return r;
        made = block_create(sizeof(*made));
        r = made ? read_context(got, made, made, err) : error_no_memory(err);
        json_decref(got);
        if (r == 0)
                *ret = TAKE_PTR(made);
        return r;
}

int sg_context_list(struct sg_sandbox *box, const struct sg_call *call, struct sg_context_list **ret,
                    struct sg_error *err)
{
        AUTO(block_free_p) struct sg_context_list *list = NULL;
        struct sg_context *items;
        json_t *got = NULL;
        size_t n;
        int r = interpreter_call(box,
                                 &(struct interpreter_call){
                                         .method = "GET", .target = "/contexts", .usual_ms = USUAL_MS, .repeats = true},
                                 call, &got, err);

        if (r < 0)
                return r;
        n = json_array_size(got);
        list = block_create(sizeof(*list));
        items = list ? block_add(list, (n + 1) * sizeof(*items)) : NULL;
        r = !json_is_array(got) ? error_set(err, SG_INTERNAL, "the code interpreter's answer is no list of contexts")
            : items             ? 0
                                : error_no_memory(err);
        for (size_t i = 0; r == 0 && i < n; i++)
                r = read_context(json_array_get(got, i), list, &items[i], err);
        json_decref(got);
        if (r < 0)
                return r;
        *list = (struct sg_context_list){.count = n, .items = items};
        *ret = TAKE_PTR(list);
        return 0;
}

int sg_context_restart(struct sg_sandbox *box, const char *id, const struct sg_call *call, struct sg_error *err)
{
        int r = check_text(id, "the context", 256, err);

        return r < 0 ? r
                     : interpreter_call(box,
                                        &(struct interpreter_call){.method = "POST",
                                                                   .target = "/contexts/%s/restart",
                                                                   .name = id,
                                                                   .usual_ms = START_MS},
                                        call, NULL, err);
}

int sg_context_delete(struct sg_sandbox *box, const char *id, const struct sg_call *call, struct sg_error *err)
{
        int r = check_text(id, "the context", 256, err);

        return r < 0 ? r
                     : interpreter_call(box,
                                        &(struct interpreter_call){.method = "DELETE",
                                                                   .target = "/contexts/%s",
                                                                   .name = id,
                                                                   .usual_ms = USUAL_MS,
                                                                   .repeats = true},
                                        call, NULL, err);
}
