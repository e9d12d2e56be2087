/* samples.h - measured times: collect, sort, and say the percentiles as JSON. */
#pragma once
#include <jansson.h>
#include <stddef.h>

struct samples {
        double *us; /* owned */
        size_t count, room;
};

void samples_add(struct samples *s, double us); /* ends the program when memory is out */
void samples_done(struct samples *s);
double samples_at(struct samples *s, double percent); /* sorts; 0 when empty */
/* {"n","min","p50","p90","p99","max"}, microseconds with one decimal. */
json_t *samples_json(struct samples *s);

double now_us(void);
