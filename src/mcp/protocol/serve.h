/* serve.h - an MCP server in this process: its loop, its signals, its listening socket; for all three programs. */
#pragma once

struct err;
struct mcp;

/* m has its backend and options, and a loop if it likes; takes listen_fd, also on failure; -1: no HTTP. */
int mcp_serve_start(struct mcp *m, int listen_fd, struct err *err);
int mcp_serve_run(struct mcp *m, struct err *err); /* until SIGTERM or SIGINT */
void mcp_serve_end(struct mcp *m); /* all sessions and what runs for them; fine when it was not started */
