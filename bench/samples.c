#include "samples.h"

#include <err.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

double now_us(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

void samples_add(struct samples *s, double us)
{
        if (s->count == s->room) {
                s->room = s->room ? s->room * 2 : 256;
                s->us = realloc(s->us, s->room * sizeof(*s->us));
                if (!s->us)
                        err(1, "samples");
        }
        s->us[s->count++] = us;
}

void samples_done(struct samples *s)
{
        free(s->us);
        *s = (struct samples){0};
}

static int by_value(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;

        return x < y ? -1 : x > y;
}

double samples_at(struct samples *s, double percent)
{
        if (s->count == 0)
                return 0;
        qsort(s->us, s->count, sizeof(*s->us), by_value);
        return s->us[(size_t)(percent / 100 * (double)(s->count - 1) + 0.5)];
}

json_t *samples_json(struct samples *s)
{
        static const struct {
                const char *name;
                double percent;
        } columns[] = {{"min", 0}, {"p50", 50}, {"p90", 90}, {"p99", 99}, {"max", 100}};
        json_t *o = json_object();

        json_object_set_new(o, "n", json_integer((json_int_t)s->count));
        for (size_t i = 0; i < sizeof(columns) / sizeof(*columns); i++) {
                double us = samples_at(s, columns[i].percent);
                json_object_set_new(o, columns[i].name, json_real(round(us * 10) / 10));
        }
        return o;
}
