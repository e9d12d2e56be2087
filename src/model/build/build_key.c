#include "model/build/build_key.h"

#include <string.h>

#include "model/build/build_request.h"

/* With its length, so that no two lists of texts give the same bytes. */
static void key_add(struct sha256 *h, const char *text)
{
        uint64_t n = text ? strlen(text) : 0;
        uint8_t length[8];

        for (size_t i = 0; i < sizeof(length); i++)
                length[i] = (uint8_t)(n >> (8 * i));
        sha256_add(h, length, sizeof(length));
        if (n)
                sha256_add(h, text, n);
}

static void key_add_list(struct sha256 *h, const json_t *list)
{
        size_t i;
        json_t *v;

        json_array_foreach (list, i, v)
                key_add(h, json_string_value(v));
        key_add(h, "end");
}

static void key_end(struct sha256 *h, struct build_key *ret)
{
        uint8_t sum[SHA256_LEN];

        sha256_end(h, sum);
        hex_encode(sum, sizeof(sum), ret->hex);
}

void build_key_base(const char *kind, const char *id, const char *context, struct build_key *ret)
{
        struct sha256 h;

        sha256_init(&h);
        key_add(&h, "base");
        key_add(&h, kind);
        key_add(&h, id);
        key_add(&h, context);
        key_end(&h, ret);
}

void build_key_step(const struct build_key *before, const struct build_step *step, const char *source,
                    struct build_key *ret)
{
        struct build_key previous = *before; /* ret may be the same */
        struct sha256 h;

        sha256_init(&h);
        key_add(&h, previous.hex);
        key_add(&h, build_step_name(step->type));
        key_add_list(&h, step->args);
        key_add(&h, step->files_hash);
        key_add_list(&h, step->shell);
        key_add(&h, step->is_literal ? "literal" : "");
        key_add(&h, source);
        key_end(&h, ret);
}
