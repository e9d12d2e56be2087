#include "cli/mcp/pairs.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

int pairs_of(const json_t *object, struct sg_pair **ret)
{
        struct sg_pair *pairs = NULL;
        const char *name;
        json_t *value;
        size_t n = 0;

        if (object) {
                pairs = calloc(json_object_size(object) + 1, sizeof(*pairs));
                if (!pairs)
                        return -ENOMEM;
        }
        json_object_foreach ((json_t *)(uintptr_t)object, name, value) {
                pairs[n++] = (struct sg_pair){name, json_string_value(value)};
        }
        *ret = pairs;
        return 0;
}

json_t *pairs_to_json(const struct sg_pair *pairs)
{
        json_t *object = json_object();

        for (; pairs && pairs->name; pairs++)
                (void)json_object_set_new(object, pairs->name, json_string(pairs->value));
        return object;
}
