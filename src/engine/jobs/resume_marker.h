/* resume_marker.h - the engine's helper that writes down that a warm sandbox is thawed, or is not after all.
 *
 * A thaw has to wait for the disk (used_checkpoints.h), and the engine must not.  Orders are carried out one after the other,
 * and each is sent back with its result.  An order may be carried out twice: when the helper dies, another one is started and gets
 * the orders that were not answered. */
#pragma once
#include <stdint.h>
#include <sys/types.h>

#include "engine/records/paused.h"
#include "model/ids.h"

struct err;
struct job_conf;

enum resume_marker_what {
        MARK_RESUMES, /* the sandbox is about to run: the mark on disk, then paused.json away */
        MARK_PAUSED,  /* the thaw failed: both as before */
        MARK_RUNS,    /* the sandbox runs: what only the pause needed is discarded */
};

struct resume_marker_order {
        char id[SANDBOX_ID_MAX];
        enum resume_marker_what what;
        pid_t pid;            /* its first process */
        uint64_t turn;        /* of the mark: the same when it is asked again */
        struct paused paused; /* what it was paused with */
        int result;           /* 0, or a negative errno */
};

int resume_marker_fork(const struct job_conf *c, int *ret_sock, struct err *err);
