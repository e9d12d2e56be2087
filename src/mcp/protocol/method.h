/* method.h - JSON-RPC methods of MCP and the functions that answer them. */
#pragma once
#include <jansson.h>

struct call;
struct session;

enum method_where { /* which clients know the method, and what holds for its result */
                    METHOD_WITH_SESSION = 1,
                    METHOD_WITHOUT_SESSION = 2,
                    METHOD_CACHEABLE = 4
};

struct method { /* tables of them end with one without a name */
        const char *name;
        unsigned where;
        void (*run)(struct call *c);
};

/* Answer a request, now or later. */
void method_run(struct call *c, const char *method);
void method_notified(struct session *s, const char *method, json_t *params);
/* The result of initialize, for a session that was just made; NULL: no memory. */
json_t *method_initialize(const struct session *s);
