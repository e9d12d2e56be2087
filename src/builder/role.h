/* role.h - the builder: runs the steps of template builds inside sandboxes.
 *
 * Runs as an unprivileged user that owns nothing.  Control connects to the listening socket and sends steps
 * (docs/internals/messages.md); each comes with a socket to the envd of a sandbox, and that is all a step can reach.
 * The supervisor starts the role when a connection waits; the role ends when nobody has needed it for a while. */
#pragma once
#include <stdint.h>

struct conf;

/* Serve until SIGTERM, or until it was idle for a minute; the exit status. */
int builder_main(const struct conf *conf);
/* Serve on a listening socket (taken) until SIGTERM, or until nobody was connected for so long; the exit status. */
int builder_serve(int listen_fd, uint32_t idle_ms);
