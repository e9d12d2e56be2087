/* process.h - processes started through the API, from start to the end of their output, and the clients that listen
 * to them.
 *
 *   RUNNING ──exits──▶ EXITED ──its output ends, or a client has signalled it──▶ ENDED
 *
 * RUNNING and EXITED processes are in the table, and called live.  Of an ENDED one the end event and the newest output
 * are kept for a while (ended_process.h).
 *
 * A process does not depend on listeners: without any its output is read, and only its newest part kept (replay.h).
 * A listener whose connection is full stops the reading, and so in the end the process, until it has room again or
 * leaves.
 * A process is in the table until just before its end event is sent. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "envd/process/ended_process.h"
#include "envd/process/replay.h"
#include "io/loop.h"

struct restarts;
struct subscriber;

enum process_state {
        PROCESS_RUNNING,
        PROCESS_EXITED, /* reaped; others may still hold its output open */
        PROCESS_ENDED,  /* the end event is sent, the memory is freed by the loop */
};

#define PROCESS_GROUP_HEADER "Sandglass-Signal-Group" /* SendSignal means process_signal_group() */

struct process_table {
        struct loop *loop;
        struct list live; /* struct process */
        struct ended_process_table ended;
        struct replay_pool pool;
        struct restarts *restarts; /* borrowed: what is started again when it ends; NULL: nothing is */
};

struct process {
        struct list node;
        struct process_table *table;
        pid_t pid;
        char *tag;      /* owned; NULL: none */
        json_t *config; /* owned; as the request has it */
        bool is_pty;
        struct io out, err;      /* our ends of the output; fd -1: the end was reached.  A PTY has only out */
        struct io in;            /* our end of stdin, or a second fd of the PTY; fd -1: closed */
        struct list inputs;      /* struct process_input (process_input.h), in order */
        struct list subscribers; /* struct subscriber */
        struct replay *replay;   /* owned (a reference) */
        struct timer kill;       /* armed: SIGKILL when due */
        enum process_state state;
        int exit_code, exit_status; /* of waitid: CLD_*, status */
        bool no_wait;               /* signalled by a client: the end of the output is not waited for */
        struct task gone;           /* frees the process */
};

void process_table_init(struct process_table *t, struct loop *loop);
void process_table_done(struct process_table *t); /* forgets all processes; kills none */

/* A process that was just started; everything in *from but pid, tag, config, fds and is_pty is ignored.  Takes tag,
 * config and the fds on success.  NULL: out of memory or epoll failed. */
struct process *process_add(struct process_table *t, const struct process *from);
struct process *process_find_pid(struct process_table *t, pid_t pid);
struct process *process_find_tag(struct process_table *t, const char *tag);

/* Reap every child that has exited, also orphans that the daemon adopted. */
void process_reap(struct process_table *t);

void process_subscribe(struct process *p, struct subscriber *s);
void process_unsubscribe(struct subscriber *s);
/* A subscriber has room again, or has caught up. */
void process_drained(struct process *p);
/* A subscriber has no room, or is behind: no more output is read. */
void process_hold(struct process *p);

void process_kill_after(struct process *p, uint64_t ms);
/* Send a signal to the process alone, not to its group.  Negative errno.  A process that has exited, but whose
 * output others hold open, ends with this call. */
int process_signal(struct process *p, int sig);
int process_signal_group(struct process *p, int sig); /* and all its children that did not leave its group */
int process_resize(struct process *p, uint32_t cols, uint32_t rows); /* -ENOTTY: no PTY */
