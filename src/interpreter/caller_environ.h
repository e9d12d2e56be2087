/* caller_environ.h - the variables of who started this program with sudo, which drops most of them.
 *
 * The start command of a template is `sudo sandglass-interpreter`, and the variables of the template (JUPYTER_PATH,
 * CLASSPATH, LD_LIBRARY_PATH, ...) are those of that command.  Kernels inherit them from this process. */
#pragma once

#include "base/str.h"

/* Take what the parent was started with into our environment, if the parent is sudo, and give put-aside variables their
 * names back.  For the start, before threads. */
void caller_environ_take(void);
/* Put variables of the loader (LD_LIBRARY_PATH, LD_PRELOAD, ...) aside, under other names: they are for kernels, and this
 * program could not start with libraries of a user.  For the moment before it executes itself. */
void caller_environ_put_aside(void);
/* The name under which a variable is put aside, or a copy of the name; NULL: out of memory. */
char *caller_environ_aside_name(struct str name);
/* The same with the text of an environment: "NAME=value", a NUL behind each.  What belongs to a user or to one sandbox
 * (HOME, SUDO_..., E2B_...) stays as it is.  Directories of PATH that the text does not have come behind those it has. */
void caller_environ_merge(struct str text);
