#include "fuzz.h"
#include "interpreter/service/request.h"

/* Whatever the body: a request, or an answer that says what is wrong. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        AUTO_FREE uint8_t *copy = fuzz_copy(data, size);
        struct str body = {(const char *)copy, size};
        struct execute_request e = {0};
        struct context_request c = {0};
        json_t *detail = NULL;

        if (execute_request_decode(body, &e, &detail) < 0) {
                MUST(json_array_size(json_object_get(detail, "detail")) > 0 && !e.body);
                json_decref(detail);
        } else {
                MUST(e.code.p);
                execute_request_done(&e);
        }
        detail = NULL;
        if (context_request_decode(body, &c, &detail) < 0) {
                MUST(json_array_size(json_object_get(detail, "detail")) > 0 && !c.body);
                json_decref(detail);
        } else {
                context_request_done(&c);
        }
        return 0;
}
