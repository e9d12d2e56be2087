/* route_server.h - what control does for the edges: their routes, the owners of signatures and tokens, and resuming a sandbox
 * that traffic comes for.  The messages are route_feed.h's. */
#pragma once
#include "control/routes/route_feed.h"

struct conf;
struct lives;
struct loop;
struct sandbox;
struct tokens;

struct route_server {
        struct loop *loop; /* borrowed, as the next three */
        const struct conf *conf;
        struct lives *lives;
        const struct tokens *tokens;
        struct route_feed feed;
};

void route_server_init(struct route_server *rs, struct loop *loop, const struct conf *conf, struct lives *lives,
                       const struct tokens *tokens);
void route_server_done(struct route_server *rs); /* also zeroed */

/* All edges are told. */
void route_server_tell_changed(struct route_server *rs, const struct sandbox *s);
void route_server_tell_gone(struct route_server *rs, const char *id);
