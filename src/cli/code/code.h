/* code.h - what the files of `sandglass code` share. */
#pragma once
#include "cli/code/interpreter.h"
#include "cli/code/run_view.h"
#include "cli/remote_command.h" /* EXIT_SIGNALLED */

struct cli_options;

/* A session at our terminal.  The exit code, or negative. */
int code_session(struct interpreter *it, struct run_view *view, const struct cli_options *o, struct err *err);
