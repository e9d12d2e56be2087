/* start.h - the making of one sandbox: its steps, in order, in the loop. */
#pragma once
#include "base/buf.h"
#include "engine/namespace/pool.h"
#include "engine/storage/rootfs.h"
#include "engine/namespace/namespaces.h"

struct start {
        struct guest *guest;
        struct plan_create plan; /* owned */
        struct ask *ask;         /* owned until answered */
        uint64_t began_us;
        struct pool_waiter waiter;
        struct cell cell; /* its pidfd and netns move to the sandbox */
        struct rootfs rootfs;
        struct disk_request *files; /* being made, or written down; NULL: nothing is */
        struct buf out;             /* the init message */
        bool is_root_sent;
        bool is_recorded; /* running.json is there */
        bool is_ready;    /* envd said so */
        struct io sock;
        struct timer disk_deadline, envd_deadline;
        struct task free_task;
};

/* Begin with a plan (taken); the start is owned by the guest.  Failure is answered. */
void start_begin(struct guest *s, struct plan_create *plan, struct ask *a);
struct start *start_free(struct start *st); /* stops and lets go of everything; always NULL */
