#include "base/err.h"
#include "fuzz.h"
#include "image/image_ref.h"
#include "image/registry_url.h"

/* A name that was taken is written so that it is taken again and means the same. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char name[IMAGE_NAME_MAX], again[IMAGE_NAME_MAX];
        uint8_t *copy = fuzz_copy(data, size);
        struct str text = {(const char *)copy, size};
        struct registry_url url;
        struct image_ref ref;
        struct err err = {0};

        if (image_ref_parse(text, &ref, &err) == 0) {
                MUST(ref.host[0] && ref.path[0] && (ref.tag[0] || ref.digest[0]));
                MUST(!strstr(ref.path, "..") && ref.path[0] != '/' && !strpbrk(ref.path, "?#%\\ @:"));
                image_ref_name(&ref, name);
                MUST(image_ref_parse(str_of(name), &ref, &err) == 0);
                image_ref_name(&ref, again);
                MUST(strcmp(name, again) == 0);
        } else {
                MUST(err.kind == ERR_INVALID && err.msg[0]);
        }
        if (registry_url_parse(text, &url, &err) == 0)
                MUST(url.host[0] && url.port && !strpbrk(url.host, "/?#@\\ "));
        free(copy);
        return 0;
}
