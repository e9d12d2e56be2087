#include "dockerfile/e2b_toml.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        AUTO_FREE uint8_t *copy = fuzz_copy(data, size);
        AUTO_E2B_TOML struct e2b_toml toml = {0};
        AUTO_PROBLEMS struct problems problems = {0};
        int r = e2b_toml_parse((struct str){(const char *)copy, size}, &toml, &problems);

        MUST((r < 0) == problems_has_errors(&problems));
        if (r < 0) {
                MUST(!toml.start_cmd && !toml.template_id);
                return 0;
        }
        MUST(!toml.start_cmd || str_is_utf8(str_of(toml.start_cmd)));
        return 0;
}
