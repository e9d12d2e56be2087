/* session.h - one client of the server, from its initialize to its end.
 *
 * A session is found by its id, which is random and as good as a password.  It owns its calls, its streams and what the backend keeps
 * for it; session_end() ends all of them.  When there are MCP_SESSIONS_MAX sessions, the one without a stream or a call that was used
 * longest ago makes room for the next. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/str.h"

struct mcp;

#define SESSION_ID_CHARS 32
#define SESSION_HOST_MAX 256

struct session {
        struct list node; /* of mcp->session_order */
        struct mcp *mcp;
        char id[SESSION_ID_CHARS + 1];
        char host[SESSION_HOST_MAX]; /* as the client's first request names this server; empty: it does not */
        bool is_encrypted;           /* the client speaks TLS to whoever stands before this server */
        const char *version;         /* of the protocol, as negotiated: one of protocol.h */
        bool is_initialized;         /* the client has said so */
        bool is_stateless;           /* the one that requests without a session share (PROTOCOL_STATELESS) */
        bool is_old_transport;       /* HTTP+SSE of 2024-11-05 */
        bool is_shared;              /* by several clients, whose ids of requests may be the same */
        struct list streams;         /* struct stream, open or kept for a client that comes back */
        struct list calls;           /* struct call */
        void *user;                  /* the backend's; NULL: nothing yet */
        uint32_t next_stream, call_count;
};

/* NULL: out of memory, or every one of MCP_SESSIONS_MAX sessions is in use. */
struct session *session_create(struct mcp *m, const char *version);
struct session *session_find(struct mcp *m, struct str id); /* also notes that the session was used */
void session_end(struct session *s);
