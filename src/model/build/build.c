#include "model/build/build.h"

#include <stdlib.h>
#include <string.h>

void build_done(struct build *b)
{
        json_decref(b->tags);
        json_decref(b->reason);
        json_decref(b->layers);
        json_decref(b->env);
        free(b->default_user);
        free(b->default_workdir);
        free(b->start_cmd);
        free(b->ready_cmd);
        *b = (struct build){0};
}

const char *build_status_name(enum build_status status)
{
        static const char *const names[] = {
                [BUILD_WAITING] = "waiting",
                [BUILD_BUILDING] = "building",
                [BUILD_READY] = "ready",
                [BUILD_ERROR] = "error",
        };

        return names[status];
}

bool build_has_tag(const struct build *b, const char *tag)
{
        size_t i;
        json_t *v;

        json_array_foreach (b->tags, i, v)
                if (strcmp(json_string_value(v), tag) == 0)
                        return true;
        return false;
}

bool build_shares_tag(const struct build *a, const struct build *b)
{
        size_t i;
        json_t *v;

        json_array_foreach (a->tags, i, v)
                if (build_has_tag(b, json_string_value(v)))
                        return true;
        return false;
}
