#include "gateway/tool_names.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"

static uint32_t hash_of(const char *text)
{
        uint32_t h = 2166136261u;

        for (; *text; text++)
                h = (h ^ (unsigned char)*text) * 16777619u;
        return h;
}

/* The part behind the last slash: "github/owner/repository" is known by its repository. */
static const char *short_name(const char *server)
{
        const char *slash = strrchr(server, '/');

        return slash ? slash + 1 : server;
}

static void put(char name[TOOL_NAME_MAX + 1], const char *server, const char *tool)
{
        char whole[512];
        size_t n;

        (void)snprintf(whole, sizeof(whole), "%.200s%s%.300s", server, server[0] ? "_" : "", tool);
        for (char *p = whole; *p; p++)
                if (!isalnum((unsigned char)*p) && *p != '_' && *p != '-')
                        *p = '_';
        n = strlen(whole);
        if (n > TOOL_NAME_MAX) {
                (void)snprintf(name, TOOL_NAME_MAX + 1, "%.*s_%08x", TOOL_NAME_MAX - 9, whole, hash_of(whole));
                return;
        }
        memcpy(name, n ? whole : "tool", n ? n + 1 : sizeof("tool"));
}

/* How many tools have each name, as a pointer that is never followed. */
static uintptr_t count_of(const struct map *m, const char *name)
{
        return (uintptr_t)map_get(m, str_of(name));
}

static int count_up(struct map *m, const char *name)
{
        return map_put(m, str_of(name), (void *)(count_of(m, name) + 1), NULL);
}

/* A name that no tool has yet: base, else base_2, base_3.  `next` knows which numbers of a base are taken. */
static int take_name(struct map *taken, struct map *next, const char *base, char name[TOOL_NAME_MAX + 1])
{
        (void)snprintf(name, TOOL_NAME_MAX + 1, "%s", base);
        while (count_of(taken, name)) {
                uintptr_t n = count_of(next, base) + 2;

                if (count_up(next, base) < 0)
                        return -ENOMEM;
                (void)snprintf(name, TOOL_NAME_MAX + 1, "%.*s_%u", TOOL_NAME_MAX - 11, base, (unsigned)n);
        }
        return count_up(taken, name);
}

int tool_names_make(struct named_tool *tools, size_t count)
{
        struct map given = {0}, taken = {0}, next = {0};
        int r = 0;

        for (size_t i = 0; i < count && r == 0; i++)
                r = count_up(&given, tools[i].tool);
        for (size_t i = 0; i < count && r == 0; i++) {
                char base[TOOL_NAME_MAX + 1];

                put(base, count_of(&given, tools[i].tool) > 1 ? short_name(tools[i].server) : "", tools[i].tool);
                r = take_name(&taken, &next, base, tools[i].name);
        }
        map_done(&given);
        map_done(&taken);
        map_done(&next);
        return r;
}
