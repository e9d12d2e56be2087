/* metrics.h - what the sandbox uses: CPU since the last call, memory, disk. */
#pragma once
#include <jansson.h>
#include <stdint.h>

struct metrics { /* the last reading; zeroed is fine */
        uint64_t cpu_us, at_us;
};

/* The object of GET /metrics; NULL out of memory. */
json_t *metrics_read(struct metrics *m);
