/* keepalive.h - how long a stream may be silent: the client says it in Keepalive-Ping-Interval. */
#pragma once
#include <stdint.h>

#include "wire/http1.h"

#define KEEPALIVE_DEFAULT_MS 90000u

static inline uint64_t keepalive_interval_ms(const struct http1_head *head)
{
        uint32_t s;

        if (parse_u32(http1_value(head, "Keepalive-Ping-Interval"), 1, 86400, &s) < 0)
                return KEEPALIVE_DEFAULT_MS;
        return s * 1000ull;
}
