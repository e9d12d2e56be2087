/* resume_marker.h - the engine's helper that writes down that a frozen sandbox moves, or does not after all.
 *
 * A thaw has to wait for the disk (used_checkpoints.h), and the engine must not.  One order after the other, each sent back with its
 * result.  An order may be carried out twice: a marker that died is started again, and gets those that were not answered. */
#pragma once
#include <stdint.h>
#include <sys/types.h>

#include "engine/records/paused.h"
#include "model/ids.h"

struct err;
struct job_conf;

enum resume_marker_what {
        MARK_RESUMES, /* it is about to run: the mark on disk, then paused.json away */
        MARK_PAUSED,  /* it did not: both as before */
        MARK_RUNS,    /* it does: what only its rest needed is thrown away */
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
