/* slot_cleaner.h - the helper process that makes a slot fit for the next sandbox, so that the engine does not wait.
 *
 * It takes away cgroups and what the host's network remembers of a slot, and closes mounts (each an RCU wait). */
#pragma once
#include <stdint.h>

#include "engine/host/helper.h"

struct err;
struct cgroups;
struct instance;

struct slot_cleaner_order {   /* engine -> slot cleaner; fds that ride along are closed there */
        uint32_t slot;        /* whose cgroups to remove; 0: none */
        uint32_t keeps_group; /* but not the one that is dear to remove (cgroups_recycle) */
};
struct slot_cleaner_result { /* slot cleaner -> engine, for jobs with a slot */
        uint32_t slot;
        int32_t r; /* 0, or the negative errno that did not go away */
        uint32_t kept_group;
        uint32_t was_online; /* it sent packets: its network namespace knows to whom, and is not for another */
};

/* in: whose links to look at; NULL: there are none. */
int slot_cleaner_fork(const struct cgroups *cg, const struct instance *in, int *ret_sock, struct err *err);
