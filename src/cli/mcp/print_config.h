/* print_config.h - what a user pastes into the settings of an assistant. */
#pragma once
#include <stdbool.h>

struct err;
struct mcp_command;

bool print_config_knows(const char *assistant);
/* On stdout; a hint where to paste it on stderr. */
int print_config(const struct mcp_command *cmd, struct err *err);
