/* criu_tree.h - the smallest thing that CRIU meets as it meets a sandbox: two processes in namespaces of their own, under
 * another uid's user namespace, in a network namespace that is the host's, with external mounts, a pipe and a TCP socket.
 *
 * For criu_prove() and the tests.  Needs no file of the host: the program is a few bytes of machine code. */
#pragma once
#include <stdint.h>
#include <sys/types.h>

struct err;

#define CRIU_TREE_UID 1879113728u /* far from any range that distributions, containers or sandboxes use */
#define CRIU_TREE_PATH_MAX 200

struct criu_tree {
        char root[CRIU_TREE_PATH_MAX], dev[CRIU_TREE_PATH_MAX]; /* mount points below scratch */
        pid_t pid;                                              /* its init, a child of the caller; 0: none */
};

/* Mounts below scratch (an absolute path, exists), in a mount namespace of the caller's own, which is left for good. */
int criu_tree_furnish(struct criu_tree *t, const char *scratch, struct err *err);
/* extra: a fd that its init shall have open as well; -1: none. */
int criu_tree_start(struct criu_tree *t, int extra, struct err *err);
/* Are both processes there, and what was in the pipe? */
int criu_tree_check(pid_t pid, struct err *err);
void criu_tree_end(pid_t pid);
