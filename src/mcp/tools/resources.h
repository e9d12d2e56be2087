/* resources.h - files as resources: list, read, and subscriptions.
 *
 * A subscription watches the directory of its file, since many programs write a file by renaming a new one into place.  Each change is
 * told at most once in RESOURCE_SETTLE_MS: on the session's GET stream or, without a session, on the stream of the call that listens.
 * While a session has no stream, the change waits for one. */
#pragma once
#include "mcp/protocol/method.h"

struct session_watches;

#define RESOURCE_SETTLE_MS 100u
#define SUBSCRIPTIONS_MAX 256u

struct buf;
struct call;
struct session;

extern const struct method resources_methods[]; /* resources/..., and subscriptions/listen (protocol/method.h) */
struct session_watches *session_watches_free(struct session_watches *w); /* always NULL; NULL is fine */
void session_watches_listen(struct session *s);                          /* the session has a stream now */
void resources_list(struct call *c); /* files of the workspace, page by page (resources_list.c) */
int resource_add_uri(struct buf *out, const char *path);
