#include "fuzz.h"
#include "image/challenge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        uint8_t *copy = fuzz_copy(data, size);
        struct challenge c;

        challenge_parse((struct str){(const char *)copy, size}, &c);
        MUST(c.kind != CHALLENGE_BEARER || c.realm[0]);
        MUST(strlen(c.realm) < sizeof(c.realm) && strlen(c.service) < sizeof(c.service) &&
             strlen(c.scope) < sizeof(c.scope));
        for (const char *p = c.realm; *p; p++)
                MUST(*p >= ' ' && *p <= '~');
        free(copy);
        return 0;
}
