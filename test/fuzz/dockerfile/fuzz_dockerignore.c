#include "dockerfile/ignore.h"
#include "dockerfile/path_pattern.h"
#include "fuzz.h"

/* The first line is a path, the rest the file. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        AUTO_FREE uint8_t *copy = fuzz_copy(data, size);
        struct str text = {(const char *)copy, size}, path;
        AUTO_IGNORE struct ignore ignore = {0};
        AUTO_PROBLEMS struct problems problems = {0};
        bool leaves;

        if (size > 4096)
                return 0;
        (void)str_cut(&text, '\n', &path);
        if (!str_has_nul(path)) {
                AUTO_FREE char *once = clean_path(path, &leaves), *twice = clean_path(str_of(once), &leaves);

                MUST(strcmp(once, twice) == 0 && !leaves && once[0] != '/');
        }
        if (ignore_parse(text, &ignore, &problems) < 0) {
                MUST(problems_has_errors(&problems) && !ignore.at);
                return 0;
        }
        (void)ignore_matches(&ignore, path);
        for (size_t i = 0; i < ignore.count; i++)
                MUST(ignore.at[i].text[0] && ignore.at[i].text[0] != '/');
        return 0;
}
