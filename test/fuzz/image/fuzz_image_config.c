#include "base/err.h"
#include "fuzz.h"
#include "image/image_config.h"

static void must_be_texts(const json_t *list)
{
        json_t *item;
        size_t i;

        MUST(json_is_array(list));
        json_array_foreach ((json_t *)list, i, item)
                MUST(json_is_string(item));
}

/* What was taken has the types that are promised.  The first byte says how many layers the manifest has. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        size_t layers = size ? data[0] % 4 : 0;
        uint8_t *copy = size ? fuzz_copy(data + 1, size - 1) : NULL;
        struct image_config c = {0};
        struct err err = {0};

        if (!size)
                return 0;
        if (image_config_decode((struct str){(const char *)copy, size - 1}, "amd64", layers, &c, &err) == 0) {
                must_be_texts(json_object_get(c.runtime, "env"));
                must_be_texts(json_object_get(c.runtime, "entrypoint"));
                must_be_texts(json_object_get(c.runtime, "cmd"));
                MUST(json_is_string(json_object_get(c.runtime, "user")));
                MUST(json_is_string(json_object_get(c.runtime, "workdir")));
                MUST(json_array_size(c.diff_ids) == layers);
                image_config_done(&c);
        } else {
                MUST(err.kind != ERR_NONE && err.msg[0] && !c.runtime && !c.diff_ids);
        }
        free(copy);
        return 0;
}
