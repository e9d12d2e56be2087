/* metrics.h - what the sandbox uses: CPU since the last call, memory, disk.
 *
 * As PID 1 the daemon sees exactly the processes of its sandbox, and counts those; standalone it counts the whole
 * machine.  Memory that the kernel holds for a sandbox (page cache, sockets) is seen by the engine only. */
#pragma once
#include <jansson.h>
#include <stdint.h>

struct metrics {                   /* zeroed is fine */
        uint64_t cpu_us, at_us;    /* the last reading */
        uint64_t memory_max_bytes; /* limit of the sandbox; 0: the memory of the machine */
};

/* The object of GET /metrics; NULL out of memory. */
json_t *metrics_read(struct metrics *m);
