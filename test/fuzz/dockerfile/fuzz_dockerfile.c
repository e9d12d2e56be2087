#include "dockerfile/dockerfile.h"
#include "fuzz.h"

/* Whatever the text: a request that can be sent, or errors, each with a line of the text. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        AUTO_FREE uint8_t *copy = fuzz_copy(data, size);
        json_t *args = json_pack("{s:s, s:s}", "A", "$x", "B", "");
        AUTO_DOCKERFILE_BUILD struct dockerfile_build build = {0};
        AUTO_PROBLEMS struct problems problems = {0};
        int r = dockerfile_convert((struct str){(const char *)copy, size},
                                   &(struct dockerfile_options){.build_args = args, .architecture = "amd64"}, &build,
                                   &problems);
        unsigned lines = 1;

        json_decref(args);
        for (size_t i = 0; i < size; i++)
                lines += copy[i] == '\n';
        for (size_t i = 0; i < problems.count; i++)
                MUST(problems.at[i].text && problems.at[i].line <= lines);
        if (r < 0) {
                MUST(problems_has_errors(&problems) && !build.request && !build.copies);
                return 0;
        }
        {
                AUTO_FREE char *text = json_dumps(build.request, JSON_COMPACT);
                json_t *back = text ? json_loads(text, 0, NULL) : NULL;

                MUST(back && json_equal(back, build.request));
                MUST(json_is_array(json_object_get(back, "steps")));
                MUST(!!json_object_get(back, "fromImage") + !!json_object_get(back, "fromTemplate") +
                             !!json_object_get(back, "fromStage") ==
                     1);
                json_decref(back);
        }
        for (size_t i = 0; i < build.copy_count; i++)
                MUST(build.copies[i].src && build.copies[i].dest && build.copies[i].step);
        return 0;
}
