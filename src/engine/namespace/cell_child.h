/* cell_child.h - the first steps of a cell's process, from its birth to envd. */
#pragma once
#include <linux/filter.h>

#include "engine/namespace/cell.h"

enum cell_child_fd { /* come with the word */
                     CELL_CHILD_PROGRAM,
                     CELL_CHILD_NULL,
                     CELL_CHILD_MOUNTS, /* enum cell_mount, from here on */
                     CELL_CHILD_FDS = CELL_CHILD_MOUNTS + CELL_MOUNTS,
};

/* Waits for word on `sock` that its namespaces are set up, hangs up its mounts, and becomes envd.  Failure is told on the
 * socket. */
_Noreturn void cell_child(int sock, const struct sock_fprog *filter);
