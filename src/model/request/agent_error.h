/* agent_error.h - errors as the agent API tells them: {"error":{"code":"not_found","message":"…"}}.  Pure.
 *
 * The role agent answers so, and the edge does in its place. */
#pragma once
#include <jansson.h>

const char *agent_error_code(unsigned status); /* "not_found" */
/* New reference; NULL: out of memory.  code NULL: that of the status.  A message that is not UTF-8 (the name of a file in it, or
 * a cut through a character) is sent with '?' for every byte outside of ASCII. */
json_t *agent_error(unsigned status, const char *code, const char *message);
json_t *agent_error_of_status(unsigned status, const char *message); /* code NULL */
