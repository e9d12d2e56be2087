/* proc.h - processes: cloning into namespaces, pidfds, identity, capabilities.  Negative errno on failure. */
#pragma once
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct sys_clone {
        uint64_t flags; /* CLONE_NEW* and the like; PIDFD and INTO_CGROUP are added when asked for below */
        int cgroup;     /* v2 directory the child is born in; -1: ours */
        int *ret_pidfd; /* NULL: none */
};
/* Like fork(): 0 in the child, its pid in the parent.  Signals its end with SIGCHLD. */
pid_t sys_clone(const struct sys_clone *c);

int sys_pidfd_open(pid_t pid);
int sys_pidfd_kill(int pidfd, int signo);
bool sys_pidfd_is_dead(int pidfd);
/* Wait for the process behind it to end (it need not be our child); -ETIMEDOUT. */
int sys_pidfd_wait(int pidfd, int timeout_ms);

/* Field 22 of /proc/PID/stat: with the pid and the boot id it names one process for good. */
int sys_start_time(int proc_dir, pid_t pid, uint64_t *ret);
/* It has begun to exit, or is gone: from then on it runs nothing, but the first process of a PID namespace may still wait
 * for the others there. */
bool sys_is_ending(int proc_dir, pid_t pid);
#define SYS_BOOT_ID_MAX 40
int sys_boot_id(char out[SYS_BOOT_ID_MAX]);

int sys_exec_fd(int fd, char *const argv[], char *const envp[]); /* returns only on failure */
int sys_close_from(int first);
int sys_close_except(int *keep, size_t n);                  /* every fd above 2 but these; sorts keep */
int sys_ns_open(int proc_dir, pid_t pid, const char *kind); /* "user", "net", ...; pid 0: our own */
sigset_t sys_signals_to_end(void); /* SIGINT, SIGTERM, SIGHUP: whoever sends one wants us to end */
int sys_signals_default(void);     /* every handler default, nothing blocked: for a child about to exec */

/* Keep capabilities across changes of uid (SECBIT_NO_SETUID_FIXUP), or end that. */
int sys_keep_caps(bool keep);
int sys_set_eids(uid_t u, gid_t g);   /* effective ones, of this thread; capabilities stay while sys_keep_caps(true) */
void sys_set_fsids(uid_t u, gid_t g); /* likewise */
int sys_become_root(void);            /* all uids, gids and groups to 0 of our user namespace */
int sys_drop_bounding(uint64_t drop /* bit per CAP_* */);
/* Permitted and effective sets become what they are now without everything outside `keep`; inheritable is emptied. */
int sys_keep_only_caps(uint64_t keep);
int sys_use_cap(unsigned cap, bool use); /* in or out of the effective set; nothing where it is not permitted anyway */
int sys_raise_nofile(void);              /* soft limit up to the hard one, the hard one up to a million where allowed */
