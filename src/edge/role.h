/* role.h - the edge: takes clients' connections and forwards their requests to the API and into sandboxes.
 *
 * Runs as an unprivileged user, one process per core.  Inherits its listening sockets and the certificate. */
#pragma once
struct conf;
struct edge_limits;

/* Serves until SIGTERM; the exit status. */
int edge_main(const struct conf *conf);
int edge_run(const struct conf *conf, const struct edge_limits *limits); /* the same, with other limits */
