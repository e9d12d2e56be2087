/* nursery.h - the helper process that makes cells, and what the engine and it say to each other. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/cell.h"

struct err;

#define NURSERY_BATCH 8 /* cells made at a time */

struct nursery_ask { /* engine -> nursery; one fd rides along when the slot has a network namespace already */
        uint32_t slot, uid_base;
};

struct nursery_answer { /* nursery -> engine; the cell's fds in the order of enum cell_fd when made */
        uint32_t slot, uid_base;
        uint64_t start_time;
        int32_t pid;  /* 0: it failed */
        int32_t kind; /* enum err_kind then, and why */
        char why[240];
};

struct nursery_conf {
        const struct instance *instance;
        const struct cgroups *cgroups;
        struct plan_limits limits;
        bool has_link;
        int envd_binary;
};

/* Fork the nursery and wait until it has set itself up.  *ret_sock is the engine's end. */
int nursery_fork(const struct nursery_conf *c, int *ret_sock, struct err *err);
