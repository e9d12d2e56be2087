/* lifetime.h - how long a sandbox lives: what a timeout in a request makes of its end.  Pure.
 *
 * No life is longer than max_s, counted from its start. */
#pragma once
#include <stdint.h>

struct err;

#define LIFETIME_CREATE_V1_S 15
#define LIFETIME_DEFAULT_S 300
#define LIFETIME_REFRESH_MIN_S 15
#define LIFETIME_REFRESH_MAX_S 3600

struct lifetime {
        int64_t started_ns, end_ns; /* on the real-time clock */
        uint32_t max_s;
};

/* ERR_INVALID "Timeout cannot be greater than 24 hours", whatever max_s is. */
int lifetime_check_max(int64_t timeout_s, uint32_t max_s, struct err *err);
/* The end `timeout_s` from now, earlier or later than before, cut to the longest life.
 * ERR_INVALID "Max instance length exceeded" when that is used up already. */
int lifetime_set(const struct lifetime *l, int64_t now_ns, int64_t timeout_s, int64_t *ret_end_ns, struct err *err);
/* The same, but never earlier than the present end. */
int64_t lifetime_extend(const struct lifetime *l, int64_t now_ns, int64_t timeout_s);
