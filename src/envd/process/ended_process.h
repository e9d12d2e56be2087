/* ended_process.h - processes that have ended, kept for a while for clients that connect late. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "envd/process/replay.h"
#include "io/loop.h"

#define ENDED_PROCESS_KEEP_MS 30000            /* for every client */
#define ENDED_PROCESS_REPLAY_KEEP_MS 600000    /* for clients that ask for replay */
#define ENDED_PROCESS_HEADER "Sandglass-Ended" /* List tells of them, too */
#define ENDED_PROCESS_MAX 16384
#define ENDED_PROCESS_SLOTS 256

struct ended_process {
        struct list node, by_pid;
        pid_t pid;
        char *tag;             /* owned; NULL: none */
        char *label;           /* owned; the last word of its command line, cut; NULL: none */
        int code, status;      /* as waitid() reports them, for the end event */
        struct replay *replay; /* owned (a reference) */
        uint64_t since_ms;
};

struct ended_process_table {
        struct loop *loop;
        uint64_t (*now_ms)(void); /* the monotonic clock; tests have their own */
        struct list all;          /* struct ended_process, oldest first */
        struct list by_pid[ENDED_PROCESS_SLOTS];
        size_t count;
        struct timer sweep; /* forgets the oldest ones */
};

void ended_process_table_init(struct ended_process_table *t, struct loop *loop);
void ended_process_table_done(struct ended_process_table *t);

/* Keep a process: pid, tag, label, code, status and replay of *from.  Takes tag, label and replay.  Without memory the process is
 * not kept. */
void ended_process_keep(struct ended_process_table *t, const struct ended_process *from);
struct ended_process *ended_process_find_pid(struct ended_process_table *t, pid_t pid);
struct ended_process *ended_process_find_tag(struct ended_process_table *t, const char *tag); /* the newest */
bool ended_process_is_recent(const struct ended_process_table *t,
                             const struct ended_process *e); /* recent enough for every client */
/* A new process has this pid and this tag (may be NULL): forget the ended ones that had either. */
void ended_process_forget(struct ended_process_table *t, pid_t pid, const char *tag);
