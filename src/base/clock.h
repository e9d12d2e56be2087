/* clock.h - now, on both clocks, and RFC 3339 text. */
#pragma once
#include <stdint.h>

#include "base/str.h"

uint64_t clock_mono_ms(void);
uint64_t clock_mono_us(void);
int64_t clock_real_ns(void); /* since 1970 */
int64_t clock_boot_ns(void); /* runs on however the former is set, and while the machine sleeps */
int64_t clock_real_ms(void);

#define CLOCK_TEXT_MAX 40
/* "2026-09-21T10:11:12.123456Z" (microseconds) into out. */
void clock_format(int64_t real_ns, char out[CLOCK_TEXT_MAX]);
/* Any RFC 3339 time with zone; -EINVAL otherwise. */
int clock_parse(struct str s, int64_t *ret_real_ns);
