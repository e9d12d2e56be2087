/* watch_rpc.h - the methods that watch: WatchDir (a stream), and CreateWatcher, GetWatcherEvents, RemoveWatcher, whose
 * watchers belong to the daemon and live until they are removed. */
#pragma once
#include "base/list.h"

struct rpc;

#define WATCHERS_MAX 1024
#define WATCHERS_BYTES_MAX (16u << 20) /* of events not fetched yet; a watcher that would exceed this fails */

struct watchers {
        struct list all; /* struct watcher */
        size_t count, bytes;
};

void watchers_init(struct watchers *ws);
void watchers_done(struct watchers *ws);

void watch_rpc_watch_dir(struct rpc *rpc);
void watch_rpc_create(struct rpc *rpc);
void watch_rpc_events(struct rpc *rpc);
void watch_rpc_remove(struct rpc *rpc);
