/* tool_names.h - names for the tools of several servers: each name once, and one that every client takes.
 *
 * A tool keeps its name where no other server has a tool of that name, and else has the name of its server before it.  Names have at
 * most TOOL_NAME_MAX characters of [A-Za-z0-9_-]. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define TOOL_NAME_MAX 64

struct named_tool {
        const char *server, *tool;    /* borrowed */
        char name[TOOL_NAME_MAX + 1]; /* filled in */
};

int tool_names_make(struct named_tool *tools, size_t count); /* 0 or -ENOMEM */
