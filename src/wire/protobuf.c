#include "wire/protobuf.h"

#include <errno.h>

#define VARINT_BYTES_MAX 10
#define FIELD_MAX ((1u << 29) - 1)

static size_t put_varint(uint8_t out[VARINT_BYTES_MAX], uint64_t v)
{
        size_t n = 0;

        for (; v >= 0x80; v >>= 7)
                out[n++] = (uint8_t)(v | 0x80);
        out[n++] = (uint8_t)v;
        return n;
}

static int add_varint(struct buf *out, uint64_t v)
{
        uint8_t bytes[VARINT_BYTES_MAX];

        return buf_add(out, bytes, put_varint(bytes, v));
}

int protobuf_add_number(struct buf *out, uint32_t field, uint64_t value)
{
        int r = add_varint(out, (uint64_t)field << 3 | PROTOBUF_NUMBER);

        return r < 0 ? r : add_varint(out, value);
}

int protobuf_add_bytes(struct buf *out, uint32_t field, struct str value)
{
        int r = add_varint(out, (uint64_t)field << 3 | PROTOBUF_BYTES);

        if (r == 0)
                r = add_varint(out, value.n);
        return r < 0 || value.n == 0 ? r : buf_add(out, value.p, value.n);
}

static int take_varint(struct str *rest, uint64_t *ret)
{
        uint64_t v = 0;

        for (size_t i = 0; i < VARINT_BYTES_MAX && i < rest->n; i++) {
                uint8_t byte = (uint8_t)rest->p[i];

                if (i == VARINT_BYTES_MAX - 1 && byte > 1)
                        return -EBADMSG; /* more than 64 bits */
                v |= (uint64_t)(byte & 0x7f) << (7 * i);
                if (byte < 0x80) {
                        rest->p += i + 1;
                        rest->n -= i + 1;
                        *ret = v;
                        return 0;
                }
        }
        return -EBADMSG;
}

static int take_bytes(struct str *rest, uint64_t n, struct str *ret)
{
        if (n > rest->n)
                return -EBADMSG;
        *ret = (struct str){rest->p, (size_t)n};
        rest->p += n;
        rest->n -= (size_t)n;
        return 0;
}

static int take_fixed(struct str *rest, size_t n, uint64_t *ret)
{
        struct str bytes;
        int r = take_bytes(rest, n, &bytes);

        *ret = 0;
        for (size_t i = 0; r == 0 && i < n; i++)
                *ret |= (uint64_t)(uint8_t)bytes.p[i] << (8 * i);
        return r;
}

static int take_value(struct str *rest, struct protobuf_field *f)
{
        uint64_t n;
        int r;

        switch (f->type) {
        case PROTOBUF_NUMBER: return take_varint(rest, &f->value);
        case PROTOBUF_FIXED64: return take_fixed(rest, 8, &f->value);
        case PROTOBUF_FIXED32: return take_fixed(rest, 4, &f->value);
        case PROTOBUF_BYTES: r = take_varint(rest, &n); return r < 0 ? r : take_bytes(rest, n, &f->bytes);
        }
        return -EBADMSG; /* groups: nobody writes them any more */
}

int protobuf_next(struct str *rest, struct protobuf_field *ret)
{
        struct protobuf_field f = {0};
        struct str at = *rest;
        uint64_t key;
        int r;

        if (at.n == 0)
                return 0;
        r = take_varint(&at, &key);
        if (r < 0)
                return r;
        if (key >> 3 == 0 || key >> 3 > FIELD_MAX)
                return -EBADMSG;
        f.number = (uint32_t)(key >> 3);
        f.type = (enum protobuf_type)(key & 7);
        r = take_value(&at, &f);
        if (r < 0)
                return r;
        *rest = at;
        *ret = f;
        return 1;
}
