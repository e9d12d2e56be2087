/* dial.h - sockets connected inside a sandbox, from the engine. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "edge/route/process_link.h"

struct conf;
struct visit;

struct dialler {
        struct process_link link; /* to the engine */
        struct list waiting;      /* struct visit */
        size_t count, count_max;  /* how many wait, and may wait */
        uint64_t last_req;
};

int dial_start(struct dialler *d, struct loop *loop, const struct conf *conf, size_t waiting_max); /* 0, -ENOMEM */
void dial_done(struct dialler *d);
/* Ask for a socket to the visit's sandbox and port.  The answer comes as ops->dialled().  false: too many wait, or out of
 * memory. */
bool dial_ask(struct visit *v);
void dial_forget(struct visit *v); /* for visit_leave(): the answer is not wanted any more */
