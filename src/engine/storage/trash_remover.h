/* trash_remover.h - the helper process that removes what was moved to <data>/trash: large trees take a while. */
#pragma once
#include "engine/host/helper.h"

struct err;

/* Removes everything below the trash directory now, and again each time it gets a message. */
int trash_remover_fork(int trash_dir, int *ret_sock, struct err *err);
/* There is something.  No trash remover: the next one begins with everything that is there. */
static inline void trash_remover_call(struct helper *trash_remover)
{
        (void)helper_send(trash_remover, "r", 1, NULL, 0);
}
