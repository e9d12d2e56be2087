#include "envd/rpc/auth.h"
#include "fuzz.h"
#include "wire/url.h"

#define NOW 1800000000

/* Only the signature for exactly these values opens, and changing any of them closes. */
static void only_the_right_one_may_open(struct settings *s, struct auth_signed q)
{
        static const struct http1_head none;
        char right[SIGNATURE_MAX], wrong[SIGNATURE_MAX];
        const char *why;
        uint64_t exp;
        bool is_late;

        auth_signature(&q, "read", s->token, right);
        why = auth_files(s, &none, &q, "read", NOW);
        MUST(!q.signature || why || strcmp(q.signature, right) == 0);
        q.signature = right;
        is_late = q.expiration && (parse_u64(str_of(q.expiration), 0, INT64_MAX, &exp) < 0 || exp < NOW);
        why = auth_files(s, &none, &q, "read", NOW);
        MUST(is_late ? why && strcmp(why, "signature is already expired") == 0 : !why);
        why = auth_files(s, &none, &q, "write", NOW);
        MUST(why && strcmp(why, "invalid signature") == 0);
        for (size_t i = 0; right[i]; i++) {
                memcpy(wrong, right, sizeof(wrong));
                wrong[i] ^= 1;
                q.signature = wrong;
                MUST(auth_files(s, &none, &q, "read", NOW));
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        uint8_t *copy = fuzz_copy(data, size);
        struct str query = {(const char *)copy, size};
        struct settings s = {.token = (char *)(uintptr_t) "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0"};
        char *value[4] = {0};
        static const char *const names[] = {"path", "username", "signature", "signature_expiration"};
        int r = 0;

        for (size_t i = 0; i < 4 && r == 0; i++)
                r = url_query_get(query, names[i], &value[i]);
        if (r == 0 && size < 4096)
                only_the_right_one_may_open(&s, (struct auth_signed){value[0], value[1], value[2], value[3]});
        for (size_t i = 0; i < 4; i++)
                free(value[i]);
        free(copy);
        return 0;
}
