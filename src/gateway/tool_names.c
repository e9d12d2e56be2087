#include "gateway/tool_names.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"

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

static uintptr_t count_of(const struct map *m, const char *name)
{
        return (uintptr_t)map_get(m, str_of(name));
}

static int count_up(struct map *m, const char *name)
{
        return map_put(m, str_of(name), (void *)(count_of(m, name) + 1), NULL);
}

/* Both parts, with a NUL between them.  n 0: out of memory. */
static struct str key_of(const char *server, const char *own, struct buf *room)
{
        if (buf_add(room, server, strlen(server) + 1) < 0 || buf_addc(room, own) < 0)
                return (struct str){0};
        return (struct str){(const char *)buf_at(room), room->len};
}

static struct tool_name *tool_name_free(struct tool_name *t)
{
        if (t) {
                list_remove(&t->node);
                free(t->server);
                free(t->own);
                free(t);
        }
        return NULL;
}

void tool_names_init(struct tool_names *n)
{
        *n = (struct tool_names){0};
        list_init(&n->unnamed);
}

void tool_names_done(struct tool_names *n)
{
        MAP_EACH (slot, &n->of_tool)
                (void)tool_name_free(slot->value);
        map_done(&n->of_tool);
        map_done(&n->of_name);
        map_done(&n->having);
        map_done(&n->tools);
        map_done(&n->next);
}

static const struct tool_name *get(const struct tool_names *n, const char *server, const char *own)
{
        AUTO_BUF struct buf room = BUF_INIT(SIZE_MAX);
        struct str key = key_of(server, own, &room);

        return key.n ? map_get(&n->of_tool, key) : NULL;
}

static int add_new(struct tool_names *n, const char *server, const char *own)
{
        AUTO_BUF struct buf room = BUF_INIT(SIZE_MAX);
        struct tool_name *t = calloc(1, sizeof(*t));
        struct str key = key_of(server, own, &room);

        if (!t)
                return -ENOMEM;
        t->server = strdup(server);
        t->own = strdup(own);
        if (!t->server || !t->own || !key.n || count_up(&n->tools, server) < 0 || count_up(&n->having, own) < 0 ||
            map_put(&n->of_tool, key, t, NULL) < 0) {
                (void)tool_name_free(t);
                return -ENOMEM;
        }
        list_push_back(&n->unnamed, &t->node);
        return 0;
}

int tool_names_add(struct tool_names *n, const char *server, const char *own)
{
        if (get(n, server, own))
                return 0;
        return count_of(&n->tools, server) < TOOL_NAMES_OF_SERVER_MAX ? add_new(n, server, own) : -E2BIG;
}

/* The name that is wanted, and else the first of name_2, name_3... that no tool has. */
static int give_one(struct tool_names *n, struct tool_name *t)
{
        char base[TOOL_NAME_MAX + 1], name[TOOL_NAME_MAX + 1];
        int r;

        put(base, count_of(&n->having, t->own) > 1 ? short_name(t->server) : "", t->own);
        memcpy(name, base, sizeof(name));
        while (tool_names_find(n, name)) {
                uintptr_t number = count_of(&n->next, base) + 2;

                if (count_up(&n->next, base) < 0)
                        return -ENOMEM;
                (void)snprintf(name, sizeof(name), "%.*s_%u", TOOL_NAME_MAX - 11, base, (unsigned)number);
        }
        r = map_put(&n->of_name, str_of(name), t, NULL);
        if (r == 0)
                memcpy(t->name, name, sizeof(name));
        return r;
}

int tool_names_give(struct tool_names *n)
{
        while (!list_is_empty(&n->unnamed)) {
                struct tool_name *t = LIST_ENTRY(n->unnamed.next, struct tool_name, node);
                int r = give_one(n, t);

                if (r < 0)
                        return r;
                list_remove(&t->node);
        }
        return 0;
}

const char *tool_names_of(const struct tool_names *n, const char *server, const char *own)
{
        const struct tool_name *t = get(n, server, own);

        return t && t->name[0] ? t->name : NULL;
}

const struct tool_name *tool_names_find(const struct tool_names *n, const char *name)
{
        return map_get(&n->of_name, str_of(name));
}
