/* cell_maker.h - the helper process that makes cells, and what the engine and it say to each other. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/namespace/cell.h"

struct err;

#define CELL_MAKER_BATCH 8 /* cells made at a time */

struct cell_maker_ask { /* engine -> cell maker; one fd rides along when the slot has a network namespace already */
        uint32_t slot, uid_base;
};

struct cell_maker_answer { /* cell maker -> engine; the cell's fds in the order of enum cell_fd when made */
        uint32_t slot, uid_base;
        uint64_t start_time;
        int32_t pid;  /* 0: it failed */
        int32_t kind; /* enum err_kind then, and why */
        char why[240];
};

struct cell_maker_conf {
        const struct instance *instance;
        const struct cgroups *cgroups;
        struct plan_limits limits;
        bool has_link;
        struct mount_ways ways;
        int envd_binary;
};

/* Fork the cell maker and wait until it has set itself up.  *ret_sock is the engine's end. */
int cell_maker_fork(const struct cell_maker_conf *c, int *ret_sock, struct err *err);
