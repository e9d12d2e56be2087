/* mcp.h - an MCP server: what its parts share.  Three programs are one: the tool server of a sandbox, the gateway, `sandglass mcp`.
 *
 * One process, one loop.  HTTP requests come to endpoint.c, lines of stdin to stdio.c.  Both find the session (session.h) and a stream
 * for the answer (stream.h).  Each JSON-RPC request becomes a call (call.h), and method.c says which function answers it.  What is
 * behind the protocol is a backend. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/list.h"
#include "base/map.h"
#include "io/loop.h"

struct http_server;
struct session;

#define MCP_BODY_BYTES_MAX (32u << 20)
#define MCP_SESSIONS_MAX 4096u
#define MCP_CALLS_MAX 256u /* of one session, at the same time */
#define MCP_BATCH_MAX 256u /* messages in one array */
#define MCP_REST_AFTER_MS (10u * 60 * 1000)
#define MCP_END_AFTER_MS (60u * 60 * 1000)
#define MCP_KEPT_MS (60u * 1000)

struct call;
struct mcp;
struct method;

/* What is behind the protocol: the tools of this sandbox (mcp/tools), those of other servers (gateway), or a platform (cli/mcp). */
struct mcp_backend {
        const char *name, *title;                                          /* of the server, as clients show it */
        json_t *(*instructions)(const struct mcp *m);                      /* a text; NULL: no memory */
        json_t *(*list_tools)(const struct mcp *m);                        /* an array; NULL: no memory */
        void (*call_tool)(struct call *c, const char *name, json_t *args); /* finishes the call, now or later */
        /* Each of the following may be NULL: there is nothing of the kind. */
        const struct method *methods;                   /* beside those of method.c; ends with one without a name */
        void (*add_capabilities)(json_t *capabilities); /* what these methods are, for the client */
        bool (*session_is_busy)(
                const struct session *s); /* something runs for the session: it is not ended for room or idleness */
        void (*session_rests)(struct session *s);   /* idle for a while: ends what can be made again */
        void (*session_listens)(struct session *s); /* it has a stream now for what belongs to no request */
        void (*session_ended)(struct session *s);   /* releases session->user; its calls are finished */
        void (*on_child)(void);                     /* SIGCHLD came */
};

struct mcp_options {
        const char *workspace;  /* where commands start and relative paths begin */
        const char *token_file; /* NULL: no token is asked for */
        /* Each of the following in ms; 0: the default above. */
        uint32_t rest_after_ms, end_after_ms; /* of a session without a call or a connection (session.h) */
        uint32_t kept_ms;                     /* an answer that was not fetched */
        bool is_local; /* only programs of this machine may ask: not the page of another site in a browser */
};

struct mcp {
        struct loop *loop;
        struct http_server *http;
        const struct mcp_backend *backend;
        void *user; /* the backend's own */
        struct mcp_options opt;
        struct map sessions;       /* id -> struct session */
        struct list session_order; /* struct session: the one that was used longest ago first */
        size_t session_count;
        struct session
                *stateless; /* what clients without a session share: a shell, commands; NULL: there was none yet */
};
