/* agent_script.h - the script that drives the Agent SDK, which is installed beside the program. */
#pragma once
#include <stddef.h>

struct err;

#define AGENT_SCRIPT_MAX (256u << 10)

char *agent_script_path(struct err *err); /* malloc'd; NULL: it is not there */
/* Its text, malloc'd. */
int agent_script_read(const char *path, char **ret, size_t *ret_len, struct err *err);
