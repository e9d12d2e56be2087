#include "wire/connect.h"

#include <errno.h>
#include <string.h>

static const struct {
        const char *name;
        unsigned http;
} codes[] = {
        [CONNECT_OK] = {"ok", 200},
        [CONNECT_CANCELED] = {"canceled", 499},
        [CONNECT_UNKNOWN] = {"unknown", 500},
        [CONNECT_INVALID_ARGUMENT] = {"invalid_argument", 400},
        [CONNECT_DEADLINE_EXCEEDED] = {"deadline_exceeded", 504},
        [CONNECT_NOT_FOUND] = {"not_found", 404},
        [CONNECT_ALREADY_EXISTS] = {"already_exists", 409},
        [CONNECT_PERMISSION_DENIED] = {"permission_denied", 403},
        [CONNECT_RESOURCE_EXHAUSTED] = {"resource_exhausted", 429},
        [CONNECT_FAILED_PRECONDITION] = {"failed_precondition", 400},
        [CONNECT_ABORTED] = {"aborted", 409},
        [CONNECT_OUT_OF_RANGE] = {"out_of_range", 400},
        [CONNECT_UNIMPLEMENTED] = {"unimplemented", 501},
        [CONNECT_INTERNAL] = {"internal", 500},
        [CONNECT_UNAVAILABLE] = {"unavailable", 503},
        [CONNECT_DATA_LOSS] = {"data_loss", 500},
        [CONNECT_UNAUTHENTICATED] = {"unauthenticated", 401},
};

static unsigned known(enum connect_code code)
{
        return (unsigned)code < ARRAY_LEN(codes) ? (unsigned)code : CONNECT_UNKNOWN;
}

const char *connect_code_name(enum connect_code code)
{
        return codes[known(code)].name;
}

unsigned connect_code_http(enum connect_code code)
{
        return codes[known(code)].http;
}

void connect_envelope_head(uint8_t out[CONNECT_ENVELOPE_HEAD], uint8_t flags, uint32_t len)
{
        out[0] = flags;
        out[1] = (uint8_t)(len >> 24);
        out[2] = (uint8_t)(len >> 16);
        out[3] = (uint8_t)(len >> 8);
        out[4] = (uint8_t)len;
}

int connect_envelope_add(struct buf *out, uint8_t flags, const void *p, size_t n)
{
        uint8_t *at;
        int r;

        if (n > UINT32_MAX)
                return -E2BIG;
        r = buf_reserve(out, CONNECT_ENVELOPE_HEAD + n, &at);
        if (r < 0)
                return r;
        connect_envelope_head(at, flags, (uint32_t)n);
        if (n)
                memcpy(at + CONNECT_ENVELOPE_HEAD, p, n);
        buf_commit(out, CONNECT_ENVELOPE_HEAD + n);
        return 0;
}

int connect_envelope_parse(const void *p, size_t n, size_t payload_max, uint8_t *ret_flags, struct str *ret_payload,
                           size_t *ret_used)
{
        const uint8_t *in = p;
        size_t len;

        if (n && in[0] & ~(CONNECT_FLAG_COMPRESSED | CONNECT_FLAG_END))
                return -EINVAL;
        if (n < CONNECT_ENVELOPE_HEAD)
                return 0;
        len = (size_t)in[1] << 24 | (size_t)in[2] << 16 | (size_t)in[3] << 8 | in[4];
        if (len > payload_max)
                return -E2BIG;
        if (n - CONNECT_ENVELOPE_HEAD < len)
                return 0;
        *ret_flags = in[0];
        *ret_payload = (struct str){(const char *)in + CONNECT_ENVELOPE_HEAD, len};
        *ret_used = CONNECT_ENVELOPE_HEAD + len;
        return 1;
}
