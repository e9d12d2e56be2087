#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

uint64_t clock_mono_us(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

uint64_t clock_mono_ms(void)
{
        return clock_mono_us() / 1000;
}

int64_t clock_real_ns(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_REALTIME, &t);
        return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t clock_boot_ns(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_BOOTTIME, &t);
        return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t clock_real_ms(void)
{
        return clock_real_ns() / 1000000;
}

void clock_format(int64_t real_ns, char out[CLOCK_TEXT_MAX])
{
        time_t sec = (time_t)(real_ns / 1000000000);
        long us = (long)(real_ns % 1000000000 / 1000);
        struct tm tm;

        (void)gmtime_r(&sec, &tm);
        (void)snprintf(out, CLOCK_TEXT_MAX, "%04d-%02d-%02dT%02d:%02d:%02d.%06ldZ", (tm.tm_year + 1900) % 10000,
                       tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, us);
}

static int digits(struct str *s, size_t n, uint32_t min, uint32_t max, uint32_t *ret)
{
        int r;

        if (s->n < n)
                return -EINVAL;
        r = parse_u32((struct str){s->p, n}, min, max, ret);
        s->p += n;
        s->n -= n;
        return r < 0 ? -EINVAL : 0;
}

static int literal(struct str *s, const char *any_of)
{
        if (s->n == 0 || !strchr(any_of, s->p[0]))
                return -EINVAL;
        s->p++;
        s->n--;
        return 0;
}

int clock_parse(struct str s, int64_t *ret_real_ns)
{
        uint32_t year, mon, day, hour, min, sec, zone_h = 0, zone_m = 0;
        int64_t frac = 0, scale = 100000000, t;
        struct tm tm = {0};
        int sign = 0;

        if (digits(&s, 4, 1970, 2261, &year) < 0 || literal(&s, "-") < 0 || digits(&s, 2, 1, 12, &mon) < 0 ||
            literal(&s, "-") < 0 || digits(&s, 2, 1, 31, &day) < 0 || literal(&s, "Tt ") < 0 ||
            digits(&s, 2, 0, 23, &hour) < 0 || literal(&s, ":") < 0 || digits(&s, 2, 0, 59, &min) < 0 ||
            literal(&s, ":") < 0 || digits(&s, 2, 0, 60, &sec) < 0)
                return -EINVAL;
        if (s.n && s.p[0] == '.') {
                s.p++, s.n--;
                if (s.n == 0 || s.p[0] < '0' || s.p[0] > '9')
                        return -EINVAL;
                for (; s.n && s.p[0] >= '0' && s.p[0] <= '9'; s.p++, s.n--, scale /= 10)
                        frac += (s.p[0] - '0') * scale;
        }
        if (s.n && (s.p[0] == '+' || s.p[0] == '-')) {
                sign = s.p[0] == '+' ? 1 : -1;
                s.p++, s.n--;
                if (digits(&s, 2, 0, 23, &zone_h) < 0 || literal(&s, ":") < 0 || digits(&s, 2, 0, 59, &zone_m) < 0)
                        return -EINVAL;
        } else if (literal(&s, "Zz") < 0) {
                return -EINVAL;
        }
        if (s.n)
                return -EINVAL;
        tm.tm_year = (int)year - 1900;
        tm.tm_mon = (int)mon - 1;
        tm.tm_mday = (int)day;
        tm.tm_hour = (int)hour;
        tm.tm_min = (int)min;
        tm.tm_sec = (int)sec;
        t = timegm(&tm) - sign * (int64_t)(zone_h * 3600 + zone_m * 60);
        if (tm.tm_mday != (int)day || t < 0) /* timegm turned 30 February into March */
                return -EINVAL;
        *ret_real_ns = t * 1000000000 + frac;
        return 0;
}
