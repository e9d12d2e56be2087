/* slot_cleaner.h - two helper processes that clean up what would make the engine wait.
 *
 * One takes away cgroups and what the host's network remembers of a slot, and closes mounts (each an RCU wait); one
 * removes directory trees.  Apart, so that a large tree does not keep slots from being used again. */
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
/* Removes everything below the trash directory now, and again each time it gets a message. */
int trash_remover_fork(int trash_dir, int *ret_sock, struct err *err);
/* There is something.  No trash remover: the next one begins with everything that is there. */
static inline void trash_remover_call(struct helper *trash_remover)
{
        (void)helper_send(trash_remover, "s", 1, NULL, 0);
}
