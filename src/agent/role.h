/* role.h - the agent API: sandboxes in plain HTTP and JSON, below /api/v1/agent (docs/agent-api.md).
 *
 * Runs as an unprivileged user that owns nothing.  Edges connect to the listening socket and pass on what clients ask.  The role
 * translates it into requests of the public API and of envd, sends these to the edges' clients.sock with the caller's own token,
 * and knows no more than its caller.  What must outlive the role (sandboxes, commands, output) is elsewhere.
 * The supervisor starts the role when a connection waits; the role ends when nobody was connected for a while. */
#pragma once
struct conf;

/* Serve until SIGTERM, or until it was idle for a minute; the exit status. */
int agent_main(const struct conf *conf);
