/* environ_file.h - /run/sandglass/environ: the variables of this sandbox, for programs that have run since before it began.
 *
 * A program that was saved with a template has the variables of the build.  Here it finds those of the sandbox: "NAME=value" with
 * a NUL behind each, as /proc/PID/environ has them.  The file is of the default user, and nobody else but root may read it.
 *
 * Runs in: PID 1 of a sandbox, as its root. */
#pragma once

struct settings;

/* After a resume: write the file if it says something else.  A sandbox without variables of its own has none.  Nor has one
 * whose file cannot be written: what is there may be of another sandbox. */
void environ_file_update(const struct settings *s);
/* A sandbox whose programs all begin with it needs none: what is there is of the sandbox that its files are from. */
void environ_file_remove(void);
