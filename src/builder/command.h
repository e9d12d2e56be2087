/* command.h - commands as steps have them: how they are run, and how messages name them. */
#pragma once
#include <jansson.h>

#define COMMAND_WORDS_MAX 121

/* The command on one line for a message: a long one loses its middle, so that the message keeps its end. */
const char *command_words(const char *cmd, char out[COMMAND_WORDS_MAX]);

/* Arguments of /bin/sh that run `cmd` in a login shell: bash, or sh in an image without bash.  New reference. */
json_t *command_shell_args(const char *cmd);
