/* program.h - runs a program of the host's to its end: for what has no other interface.  Blocks; in helpers and at the end. */
#pragma once
#include <stdint.h>

struct err;

/* argv[0] is looked for where the system's programs are.  caps: a bit per CAP_*, all that the program may have.
 * 0: it ended well.  ERR_NOT_FOUND: there is no such program.  ERR_INTERNAL: it failed, with the first line of what it said;
 * ERR_TIMEOUT: it was ended. */
int program_run(const char *const argv[], uint64_t caps, int timeout_ms, struct err *err);
