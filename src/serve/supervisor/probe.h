/* probe.h - is the server up?  One request through the whole funnel, made by a child.
 *
 * The listening sockets exist before the roles do, so the request waits in the backlog until an edge takes it, there
 * until control does, and there until the engine is connected: the answer is the event, nobody polls.  The supervisor
 * itself reads nothing from anyone. */
#pragma once
#include <sys/types.h>

/* Start a child that asks GET /health at the listening socket's address; it exits 0 on an answer of 2xx, otherwise 1. */
int probe_start(int listening_fd, unsigned timeout_s, pid_t *ret_pid);
