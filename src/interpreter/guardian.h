/* guardian.h - the process that keeps the service running.
 *
 * The guardian holds the listening socket and waits.  When the serving process ends in any way, the guardian kills what that
 * left behind and starts another one; clients that connect meanwhile wait in the backlog.  When the guardian dies, the serving
 * process ends its kernels and becomes the guardian: it executes the program again.
 * The guardian has another name in the process list, so that a kill by name does not hit both at once. */
#pragma once

struct options;

/* Until SIGTERM, SIGINT or SIGHUP to this very process; the exit code.  argv is that of main(). */
int guardian_run(const struct options *options, int argc, char **argv);
