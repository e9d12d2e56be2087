/* criu_failure.h - why a dump or a restore failed, for people: from what CRIU said, its log, and the disk.  Blocks. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "base/str.h"
#include "engine/criu/criu_log.h"

struct criu_failure {
        bool is_full; /* the disk is: whatever CRIU says, that is the reason */
        char reason[CRIU_REASON_MAX];
        char culprit[CRIU_COMM_MAX + 32]; /* "pid 7 (node): " as it is called inside; empty: not known */
};

/* dir: where the log is.  said: in CRIU's answer, may be empty.  init: of what was dumped; 0: nobody is to be named. */
void criu_failure_explain(int dir, const char *log_name, struct str said, pid_t init, struct criu_failure *f);
