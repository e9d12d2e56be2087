/* envd.h - the daemon's state: one struct per process, made in main.c and known to the router and its own endpoints.
 *
 * Handlers in the folders below know only their part of it: struct handler_context, and the table of their service. */
#pragma once
#include <stdbool.h>

#include "envd/process/process.h"
#include "envd/process/restart.h"
#include "envd/rpc/handler_context.h"
#include "envd/sandbox/identity_files.h"
#include "envd/sandbox/metrics.h"
#include "envd/watch/watch_rpc.h"

struct http_server;

struct envd {
        struct handler_context context;
        struct http_server *server; /* owned */
        struct process_table processes;
        struct restarts restarts;
        struct watchers watchers;
        struct metrics metrics;
        struct identity_files identity_files;
        bool is_cell; /* the daemon is PID 1 of a sandbox, and writes its identity files */
};
