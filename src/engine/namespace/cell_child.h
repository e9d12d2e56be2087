/* cell_child.h - the first steps of a cell's process, from its birth to envd. */
#pragma once
#include <linux/filter.h>

/* Waits for word on `sock` that its namespaces are set up, then becomes envd.  Failure is told on the socket. */
_Noreturn void cell_child(int sock, const struct sock_fprog *filter);
