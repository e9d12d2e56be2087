/* gateway.h - several MCP servers behind one endpoint.
 *
 * The gateway is a backend of mcp.h: its tools are those of all servers that run; sessions are told when these change.  Each tool keeps
 * its name (tool_names.h).  A server that failed is named in the instructions of the gateway and in its log; the others serve. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "base/list.h"
#include "io/loop.h"

struct buf;
struct err;
struct mcp;
struct mcp_backend;

extern const struct mcp_backend gateway_backend;

struct gateway_options {
        const json_t *config; /* {server: configuration}; borrowed for the call */
        const char *install_dir, *github_url;
        void (*on_settled)(void *arg); /* every server runs or has failed: called each time that becomes true */
        void *arg;
};

/* Start all servers of the configuration; sets m->user. */
int gateway_start(struct mcp *m, const struct gateway_options *opt, struct err *err);
void gateway_stop(struct mcp *m);
bool gateway_is_settled(const struct mcp *m);
/* A line for each server: its tools, or why it failed. */
void gateway_describe(const struct mcp *m, struct buf *out);
