#include "base/err.h"
#include "fuzz.h"
#include "image/image_manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        uint8_t *copy = fuzz_copy(data, size);
        struct image_manifest m = {0};
        struct err err = {0};
        uint64_t bytes = 0;

        if (image_manifest_decode((struct str){(const char *)copy, size}, "amd64", &m, &err) == 0) {
                MUST(image_digest_is_valid(str_of(m.config.digest)));
                MUST(m.layer_count <= IMAGE_LAYERS_MAX && (!m.is_index || m.layer_count == 0));
                for (size_t i = 0; i < m.layer_count; i++) {
                        MUST(image_digest_is_valid(str_of(m.layers[i].digest)));
                        bytes += m.layers[i].bytes;
                }
                MUST(bytes == m.layer_bytes && bytes <= IMAGE_BYTES_MAX);
                image_manifest_done(&m);
        } else {
                MUST(err.kind != ERR_NONE && err.msg[0] && !m.layers);
        }
        free(copy);
        return 0;
}
