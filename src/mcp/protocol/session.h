/* session.h - one client of the server, from its initialize to its end.
 *
 * A session is found by its id, which is random and as good as a password.  It owns its calls, its streams and what the backend keeps
 * for it; session_end() ends all of them.  When there are MCP_SESSIONS_MAX sessions, the one without a stream or a call that was used
 * longest ago makes room for the next.
 *
 * Clients leave without a word: most of them close their connections and send no DELETE.  A session that has no call and no connection
 * rests after rest_after_ms (the backend ends what can be made again), and ends after end_after_ms unless the backend is busy for it
 * (mcp_options).  Sessions whose life is not the client's to end (is_stateless, lines of stdin) do neither. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/str.h"
#include "io/loop.h"

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
        uint64_t used_ms;  /* when a call or a connection last began or ended */
        bool rests;        /* the backend was told so, and nothing was used since */
        struct timer idle; /* the next look at the two limits */
};

/* NULL: out of memory, or every one of MCP_SESSIONS_MAX sessions is in use. */
struct session *session_create(struct mcp *m, const char *version);
struct session *session_find(struct mcp *m, struct str id); /* also notes that the session was used */
void session_touch(struct session *s);                      /* a call or a connection ended: idle from now on */
void session_end(struct session *s);
/* The list of tools has changed: every session that listens hears of it. */
void sessions_tell_tools(struct mcp *m);
