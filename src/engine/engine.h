/* engine.h - what the parts of the engine's main process share. */
#pragma once
#include "base/map.h"
#include "engine/cgroups.h"
#include "engine/criu_find.h"
#include "engine/disk.h"
#include "engine/fresh.h"
#include "engine/filter.h"
#include "engine/flattener.h"
#include "engine/helper.h"
#include "engine/instance.h"
#include "engine/pool.h"
#include "engine/record.h"
#include "engine/trash.h"
#include "engine/vault.h"
#include "io/listener.h"
#include "io/loop.h"
#include "model/conf.h"
#include "sys/proc.h"

struct engine {
        const struct conf *conf;
        struct loop *loop;
        struct io supervisor; /* its pidfd */
        int data_dir, sandboxes_dir, trash_dir, ahead_dir, layers_dir, proc_dir, host_netns, envd_binary;
        int woken;           /* woken.h */
        uint64_t woken_turn; /* of the next mark */
        int checkpoints_dir, sealed_dir, envd_dir, lost_dir;
        struct timer lost_timer; /* lost.h */
        char envd_hash[RECORD_HASH_MAX];
        struct criu_place criu;
        char checkpoints_why[240]; /* "": sandboxes can be paused with their memory; else why not */
        char boot_id[SYS_BOOT_ID_MAX];
        struct instance instance;
        struct cgroups cgroups;
        struct filter *filter;  /* NULL: this host has none, sandboxes have loopback only */
        char filter_why[200];   /* then: why */
        struct io table_events; /* guard.h */
        struct plan_limits default_limits;
        struct pool pool;
        struct disk disk;
        struct helper sweeper;
        struct trash trash;
        struct helper marker; /* marker.h */
        struct flattener flattener;
        struct vault vault;
        struct fresh fresh;
        struct io pressure; /* the machine's memory; warm.h */
        uint64_t warm_bytes;
        unsigned warm_count;
        struct list warm;     /* struct guest, least recently used first */
        struct map sandboxes; /* id -> struct guest */
        unsigned alive;       /* running ones */
        struct listener engine_listener, dial_listener;
        struct list controls, edges; /* struct client */
};
