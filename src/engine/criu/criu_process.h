/* criu_process.h - one process of CRIU's for one request: starting it, speaking with it, its end.
 *
 * It starts in the caller's namespaces and cgroups, but for a mount namespace in which little is left (criu_root.h), with a
 * small tmpfs on /run, where CRIU keeps what it found out about the kernel (45 ms per call); that file is carried over to the
 * next job process. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/criu/criu_root.h"
#include "engine/criu/criu_rpc.h"

struct err;
struct criu_tool;

struct criu_process {
        pid_t pid;
        int pidfd, sock; /* owned; -1: none */
        int run;         /* its /run: a mount */
        int said;        /* file with what it wrote to stdout and stderr */
        int run_dir;     /* criu_tool.run_dir, opened */
        pid_t subject;   /* what it works on: when that is ending, CRIU is killed; 0: nothing */
        int grace_ms;    /* so much later: CRIU ends its subject itself when it fails, and then says why */
        int proc_dir;    /* /proc; borrowed; for that */
        char boot_id[40];
};

struct criu_call {
        const struct criu_tool *tool;
        uint32_t owner;                         /* of user namespaces it makes; 0: root */
        const int *cgroup;                      /* v2 directory it is born in, with a namespace; NULL: ours, without */
        bool dies_with_caller;                  /* with the calling thread */
        const char *paths[CRIU_ROOT_PATHS_MAX]; /* absolute: what it works on */
        size_t path_count;
};

/* ERR_UNAVAILABLE: there is no such program. */
int criu_process_start(struct criu_process *w, const struct criu_call *call, struct err *err);
void criu_process_done(struct criu_process *w); /* waits for its end */

int criu_process_send(struct criu_process *w, const struct buf *message, struct err *err);
/* The next answer; its text lies in *in.  ERR_UNAVAILABLE: it ended instead, with what it said last.  ERR_TIMEOUT: none came
 * in that time, or its subject is ending, and it was killed, with every process it had made but those it restored fully. */
int criu_process_receive(struct criu_process *w, int limit_ms, struct buf *in, struct criu_rpc_answer *ret,
                         struct err *err);
