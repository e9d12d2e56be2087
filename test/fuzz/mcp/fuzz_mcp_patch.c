/* The input is a patch, a zero byte and a file.  A patch that fits leaves a text; whatever is wrong is told. */
#include "fuzz.h"
#include "base/err.h"
#include "mcp/tools/patch/patch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        AUTO_FREE uint8_t *copy = fuzz_copy(data, size);
        struct str text, old = {(const char *)copy, size};
        static struct patch p;
        struct err err = {0};

        (void)str_cut(&old, '\0', &text);
        if (patch_parse(text, &p, &err) < 0) {
                MUST(err.msg[0]);
                return 0;
        }
        MUST(p.count > 0 && p.count <= PATCH_FILES_MAX);
        for (size_t i = 0; i < p.count; i++) {
                AUTO_BUF struct buf out = BUF_INIT(1 << 22);

                if (patch_apply(&p.files[i], old, &out, &err) < 0)
                        MUST(err.kind == ERR_CONFLICT || err.kind == ERR_INVALID || err.kind == ERR_LIMIT ||
                             err.kind == ERR_INTERNAL);
        }
        return 0;
}
