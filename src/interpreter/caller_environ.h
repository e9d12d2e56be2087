/* caller_environ.h - the variables of who started this program with sudo, which drops most of them.
 *
 * The start command of a template is `sudo sandglass-interpreter`, and the variables of the template (JUPYTER_PATH,
 * CLASSPATH, LD_LIBRARY_PATH, ...) are those of that command.  Kernels inherit them from this process. */
#pragma once

#include "base/str.h"

/* Take what the parent was started with into our environment, if the parent is sudo.  For the start, before threads. */
void caller_environ_take(void);
/* The same with the text of an environment: "NAME=value", a NUL behind each.  What belongs to a user or to one sandbox
 * (HOME, SUDO_..., E2B_...) stays as it is.  Directories of PATH that the text does not have come behind those it has. */
void caller_environ_merge(struct str text);
