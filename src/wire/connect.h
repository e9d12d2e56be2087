/* connect.h - Connect protocol envelopes (1 byte flags, 4 bytes length, payload) and its error codes.  No I/O. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

#define CONNECT_FLAG_COMPRESSED 0x01
#define CONNECT_FLAG_END 0x02
#define CONNECT_ENVELOPE_HEAD 5

enum connect_code { /* numbers as in the protocol */
                    CONNECT_OK = 0,
                    CONNECT_CANCELED,
                    CONNECT_UNKNOWN,
                    CONNECT_INVALID_ARGUMENT,
                    CONNECT_DEADLINE_EXCEEDED,
                    CONNECT_NOT_FOUND,
                    CONNECT_ALREADY_EXISTS,
                    CONNECT_PERMISSION_DENIED,
                    CONNECT_RESOURCE_EXHAUSTED,
                    CONNECT_FAILED_PRECONDITION,
                    CONNECT_ABORTED,
                    CONNECT_OUT_OF_RANGE,
                    CONNECT_UNIMPLEMENTED,
                    CONNECT_INTERNAL,
                    CONNECT_UNAVAILABLE,
                    CONNECT_DATA_LOSS,
                    CONNECT_UNAUTHENTICATED,
};
const char *connect_code_name(enum connect_code code); /* "not_found" */
unsigned connect_code_http(enum connect_code code);    /* 404 */

void connect_envelope_head(uint8_t out[CONNECT_ENVELOPE_HEAD], uint8_t flags, uint32_t len);
int connect_envelope_add(struct buf *out, uint8_t flags, const void *p, size_t n);

/* First envelope of p[0..n): 1 and *ret_flags, *ret_payload (a slice of p), *ret_used; 0 more bytes are needed;
 * -E2BIG payload over max; -EINVAL unknown flags. */
int connect_envelope_parse(const void *p, size_t n, size_t payload_max, uint8_t *ret_flags, struct str *ret_payload,
                           size_t *ret_used);
