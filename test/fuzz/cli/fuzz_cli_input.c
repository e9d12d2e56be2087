/* Typed code of any kind is looked at without a fault, and an answer is given. */
#include "cli/code/input.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static const char *const languages[] = {"python", "javascript", "typescript", "java", "r", "bash", "other"};
        AUTO_FREE uint8_t *copy = fuzz_copy(data, size);

        for (size_t i = 0; i < ARRAY_LEN(languages); i++)
                MUST(input_state_of(languages[i], (struct str){(const char *)copy, size}) <= INPUT_BLOCK);
        return 0;
}
