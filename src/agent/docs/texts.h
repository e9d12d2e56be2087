/* texts.h - api/agent-openapi.json and the page that shows it (page.html), as tools/embed puts them into the program. */
#pragma once
#include <stddef.h>

extern const unsigned char agent_openapi[], agent_page[];
extern const size_t agent_openapi_len, agent_page_len;
