/* criu.h - dump and restore of a sandbox's processes by CRIU, one job process process of CRIU's per call.
 *
 * Speaks the protocol of `criu swrk` over a socket pair.  CRIU runs through its own loader and libraries, with our shim
 * preloaded (criu_shim.c says what it mends).  Everything here blocks: for job processes only (job_queue.h). */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

struct criu_tool {           /* where it is */
        const char *dir;     /* private directory with loader, libraries and program; NULL: the host's own `criu` */
        const char *shim;    /* absolute path of the preloaded library */
        const char *run_dir; /* kept between calls: CRIU notes there what it found out about the kernel */
};

struct criu_dump {
        pid_t pid;          /* its init */
        const char *images; /* absolute, not below /run: where to write; exists, is empty, mode 0711 */
        const char
                *freeze_cgroup; /* absolute path of its v2 group, frozen already; NULL: CRIU stops tasks one by one */
        /* May be NULL.  Everything is written, nothing runs yet, and the names that CRIU gives to files which have lost
         * theirs (link_remap.N) are still in the file system: they go when this returns.  Negative: the dump has failed
         * with that error.  May be called again when CRIU fails after it, and is tried once more. */
        int (*on_written)(void *arg, struct err *err);
        void *arg;
};

struct criu_stats {
        uint64_t frozen_us;     /* as CRIU counts it */
        uint64_t pages_written; /* as large as this machine's */
};

/* Write the images; the processes stay as they are: frozen.  ERR_CONFLICT: they cannot be dumped, with the reason, the pid
 * inside and the name of the culprit where CRIU tells.  ERR_NO_SPACE: disk full.  ERR_UNAVAILABLE: no CRIU. */
int criu_dump(const struct criu_tool *t, const struct criu_dump *d, struct criu_stats *ret, struct err *err);

struct criu_restore {
        const char *images;    /* absolute, not below /run; mode 0711: its processes open images under their own uids */
        const char *work;      /* absolute: for logs and sockets of this one restore */
        const char *root;      /* absolute: mount point of its root file system, idmapped */
        const char *dev;       /* absolute: mount point of its /dev */
        uint32_t uid_base;     /* the restored user namespace is owned by this uid */
        int limit_ms;          /* for each step of CRIU's; 0: by the size of the images */
        const int *cgroup;     /* v2 directory its processes are born in (-1: there is none); NULL: the caller's */
        bool dies_with_caller; /* CRIU is killed when the calling thread ends; else CRIU goes on as far as it can */
        /* Its namespaces exist, its sockets not yet: set up the network of /proc/PID/ns/net.  Negative: give up. */
        int (*on_namespaces)(pid_t pid, void *arg, struct err *err);
        /* Everything is in place, nothing runs yet.  Negative: give up. */
        int (*on_before_resume)(pid_t pid, void *arg, struct err *err);
        void *arg;
};

/* root and dev are not below /run, which must exist: CRIU sees a tmpfs of its own there.  Every directory above them lets
 * everybody pass (o+x): the restored init, nobody special outside, looks for them by path.
 * CRIU starts in the caller's mount namespace and in the calling thread's cgroups (but for `cgroup`), in a cgroup namespace
 * whose root they are; they become the sandbox's.  *ret_pid is its
 * init, a child of the caller.  ERR_INVALID: the images do not fit.  On failure no process is left. */
int criu_restore(const struct criu_tool *t, const struct criu_restore *r, pid_t *ret_pid, struct err *err);

/* Does it work on this host?  Dumps and restores a small process tree in namespaces of its own, in `scratch`, to which
 * everybody can pass (o+x, and above it). */
int criu_prove(const struct criu_tool *t, const char *scratch, struct err *err);
