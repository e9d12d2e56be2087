/* leftover.h - roles of an earlier supervisor that was killed: remembered on disk, ended before a new start.
 *
 * They were told to end when their parent died, but may still hold the ports while they finish. */
#pragma once
#include <stddef.h>
#include <sys/types.h>

struct conf;
struct err;

/* Remember these processes (by pid and start time) in <data>/run/roles. */
int leftover_save(const struct conf *c, const pid_t *pids, size_t n);
/* End what run/roles names and still lives: SIGTERM, after 10 s SIGKILL; returns when they are gone. */
int leftover_end(const struct conf *c, struct err *err);

/* Ask the process to end and wait for it: SIGTERM, after term_ms SIGKILL.  0 once it is gone (or never was). */
int process_end(int pidfd, int term_ms);
