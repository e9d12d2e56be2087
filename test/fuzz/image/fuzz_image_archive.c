#include "base/err.h"
#include "fuzz.h"
#include "image/archive_index.h"

static void look(int r, struct archive_index *a, const struct err *err)
{
        if (r < 0) {
                MUST(err->kind != ERR_NONE && err->msg[0] && !a->images);
                return;
        }
        MUST(a->image_count > 0 && a->image_count <= ARCHIVE_IMAGES_MAX);
        for (size_t i = 0; i < a->image_count; i++) {
                MUST(!a->images[i].config == !!a->images[i].digest[0]);
                MUST(a->images[i].layer_count <= IMAGE_LAYERS_MAX);
        }
        archive_index_done(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        uint8_t *copy = fuzz_copy(data, size);
        struct str text = {(const char *)copy, size};
        struct archive_index a = {0};
        struct err err = {0};

        look(archive_index_decode_docker(text, &a, &err), &a, &err);
        err = (struct err){0};
        look(archive_index_decode_oci(text, &a, &err), &a, &err);
        free(copy);
        return 0;
}
