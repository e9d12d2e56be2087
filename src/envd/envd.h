/* envd.h - the daemon's state: one of it per process, made in main.c and handed to every handler. */
#pragma once
#include <stdbool.h>

#include "envd/sandbox/identity_files.h"
#include "envd/sandbox/metrics.h"
#include "envd/process/process.h"
#include "envd/rpc/settings.h"
#include "envd/watch/watch_rpc.h"

struct http_server;
struct loop;

struct envd {
        struct loop *loop;          /* owned */
        struct http_server *server; /* owned */
        struct settings settings;
        struct process_table processes;
        struct watchers watchers;
        struct metrics metrics;
        struct furnish furnish;
        bool is_cell;   /* PID 1 of a sandbox: its files are ours to write */
        bool keep_user; /* standalone without privileges: every user is the one we run as */
};
