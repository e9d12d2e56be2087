/* metrics.h - what the sandbox uses: CPU since the last call, memory, disk.
 *
 * As PID 1 we see exactly the sandbox's processes, and count those; standalone it is the whole machine.  What the kernel
 * holds for a sandbox besides (page cache, sockets) only the engine sees. */
#pragma once
#include <jansson.h>
#include <stdint.h>

struct metrics {                   /* zeroed is fine */
        uint64_t cpu_us, at_us;    /* the last reading */
        uint64_t memory_max_bytes; /* what we may use; 0: all the machine has */
};

/* The object of GET /metrics; NULL out of memory. */
json_t *metrics_read(struct metrics *m);
