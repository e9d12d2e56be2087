/* tidy_tool.h - the description of a tool, as clients take it.
 *
 * Clients refuse the whole list, with the tools of all servers, for one tool that is malformed: what is wrong is left out. */
#pragma once
#include <jansson.h>

/* A new reference; NULL: not even a name is there. */
json_t *tidy_tool(const json_t *tool);
