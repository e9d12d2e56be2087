/* tool_names.h - names for the tools of several servers: each name once, one that every client takes, and the same for good.
 *
 * A tool that is named keeps its name as long as the gateway runs, also while its server does not.  A new tool gets its own name where no
 * server has, or had, a tool of that name, and else has the name of its server before it.  Names have at most TOOL_NAME_MAX characters
 * of [A-Za-z0-9_-]. */
#pragma once
#include "base/list.h"
#include "base/map.h"

#define TOOL_NAME_MAX 64
#define TOOL_NAMES_OF_SERVER_MAX 10000u /* it may list others each time it is asked */

struct tool_name {
        struct list node;   /* of tool_names->unnamed */
        char *server, *own; /* owned: whose tool it is, and its name there */
        char name[TOOL_NAME_MAX + 1];
};

struct tool_names {
        struct map of_tool; /* server and own name -> struct tool_name, owned */
        struct map of_name; /* name -> the same */
        struct list unnamed;
        /* Counts, as pointers that are never followed. */
        struct map having; /* own name -> servers that have a tool of that name */
        struct map tools;  /* server -> its tools */
        struct map next;   /* a name that several want -> numbers behind it that are taken */
};

void tool_names_init(struct tool_names *n);
void tool_names_done(struct tool_names *n);
/* Note that there is such a tool: fine when it is known.  -E2BIG: the server has too many; -ENOMEM. */
int tool_names_add(struct tool_names *n, const char *server, const char *own);
/* Name all that were added.  -ENOMEM: some have none yet. */
int tool_names_give(struct tool_names *n);
const char *tool_names_of(const struct tool_names *n, const char *server, const char *own); /* NULL: it has none */
const struct tool_name *tool_names_find(const struct tool_names *n, const char *name);      /* NULL: nothing has it */
