/* engine.h - what the parts of the engine's main process share. */
#pragma once
#include "base/map.h"
#include "engine/storage/disk.h"
#include "engine/checkpoint/recent_checkpoints.h"
#include "engine/layers/layer_merger.h"
#include "engine/host/helper.h"
#include "engine/records/record.h"
#include "engine/guest/trash_retry.h"
#include "engine/jobs/job_queue.h"
#include "io/listener.h"
#include "io/loop.h"
#include "model/conf.h"
#include "sys/proc.h"

struct engine_ops;
struct namespaces;
struct standbys;

struct engine {
        const struct conf *conf;
        struct loop *loop;
        const struct engine_ops *const *kinds; /* rows of this server, then NULL; new sandboxes are of the first */
        struct namespaces *namespaces;         /* of the kind "namespace": namespace/namespaces.h */
        struct io supervisor;                  /* its pidfd */
        int data_dir, sandboxes_dir, trash_dir, ahead_dir, host_dir, layers_dir, proc_dir, envd_binary;
        int used_checkpoints; /* used_checkpoints.h */
        uint64_t mark_turn;   /* of the next mark */
        int checkpoints_dir, sealed_dir, envd_dir, lost_dir;
        struct timer lost_timer; /* lost.h */
        char envd_hash[RECORD_HASH_MAX];
        char checkpoints_why[240]; /* "": sandboxes can be paused with their memory; else why not */
        char boot_id[SYS_BOOT_ID_MAX];
        struct plan_limits default_limits;
        struct disk disk;
        struct helper trash_remover;
        struct trash_retry trash_retry;
        struct helper resume_marker; /* resume_marker.h */
        struct layer_merger layer_merger;
        struct job_queue job_queue;
        struct recent_checkpoints recent;
        struct io pressure;   /* the machine's memory; warm.h */
        uint64_t pressure_us; /* that processes had waited for memory by its last event */
        uint64_t warm_bytes;
        unsigned warm_count;
        struct list warm;          /* struct guest, least recently used first */
        struct standbys *standbys; /* owned; NULL: not started yet */
        struct map sandboxes;      /* id -> struct guest */
        unsigned alive;            /* guests that run: kept by guest_go() */
        struct listener engine_listener, dial_listener;
        struct list controls, edges; /* struct client */
};
