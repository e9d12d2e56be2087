#include "engine/net/nft_library.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"

static const struct {
        const char *name;
        size_t at; /* in struct nft_library */
} functions[] = {
        {"nft_ctx_new", offsetof(struct nft_library, ctx_new)},
        {"nft_ctx_free", offsetof(struct nft_library, ctx_free)},
        {"nft_ctx_buffer_output", offsetof(struct nft_library, ctx_buffer_output)},
        {"nft_ctx_buffer_error", offsetof(struct nft_library, ctx_buffer_error)},
        {"nft_ctx_get_error_buffer", offsetof(struct nft_library, ctx_get_error_buffer)},
        {"nft_ctx_set_dry_run", offsetof(struct nft_library, ctx_set_dry_run)},
        {"nft_run_cmd_from_buffer", offsetof(struct nft_library, run_cmd_from_buffer)},
};

int nft_library_open(const char *name, struct nft_library *ret, struct err *err)
{
        void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);

        if (!library)
                return err_set(err, ERR_UNAVAILABLE, "packet filter: %s", dlerror());
        for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
                void *f = dlsym(library, functions[i].name);

                if (!f) {
                        (void)dlclose(library);
                        return err_set(err, ERR_UNAVAILABLE, "packet filter: %s has no %s", name, functions[i].name);
                }
                memcpy((char *)ret + functions[i].at, &f, sizeof(f)); /* C has no cast for it */
        }
        return 0;
}
