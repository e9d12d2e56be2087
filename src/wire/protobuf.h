/* protobuf.h - Protocol Buffers' bytes: fields in, fields out, one level at a time.  No I/O, no schema.
 *
 * Enough for CRIU's protocol and its image files; messages inside messages are bytes to be read in turn. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

enum protobuf_type { PROTOBUF_NUMBER = 0, PROTOBUF_FIXED64 = 1, PROTOBUF_BYTES = 2, PROTOBUF_FIXED32 = 5 };

/* 0, or what buf_add() says.  A negative int32 is given as (uint64_t)(int64_t)value. */
int protobuf_add_number(struct buf *out, uint32_t field, uint64_t value);
int protobuf_add_bytes(struct buf *out, uint32_t field, struct str value);

struct protobuf_field {
        uint32_t number;
        enum protobuf_type type;
        uint64_t value;   /* of NUMBER and FIXED */
        struct str bytes; /* of BYTES: a slice of the message */
};

/* Take the first field off *rest: 1; 0 at the end; -EBADMSG cut short, a number too long, groups, field 0. */
int protobuf_next(struct str *rest, struct protobuf_field *ret);
