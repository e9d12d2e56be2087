#include "base/err.h"
#include "fuzz.h"
#include "interpreter/jupyter/kernelspec.h"

/* Whatever the text: a program to execute, or an explanation. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        AUTO_FREE uint8_t *copy = fuzz_copy(data, size);
        AUTO_KERNELSPEC struct kernelspec s = {0};
        struct err err = {0};
        char **argv;

        if (kernelspec_decode((struct str){(const char *)copy, size}, &s, &err) < 0) {
                MUST(err.kind == ERR_INVALID && err.msg[0] && !s.argv);
                return 0;
        }
        MUST(s.argv && s.argv[0] && s.argv[0][0] && s.language && s.env);
        argv = kernelspec_argv(&s, "/file");
        string_list_free(argv);
        return 0;
}
