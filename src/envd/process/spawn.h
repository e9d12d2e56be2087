/* spawn.h - start a program: clone as vfork does, credentials, working directory, exec.
 *
 * The child shares our memory until it execs, so starting costs the same however much memory the daemon has, and
 * an error in the child comes back in a struct, without a pipe and without a race. A program that cannot be executed
 * is no failure of spawn(): the child says so on its stderr and exits with 127 (not found) or 126, as a shell would. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "envd/rpc/users.h"

struct spawn {
        const char *cmd;                    /* with a slash: that file; otherwise searched in the PATH of env */
        char *const *argv;                  /* argv[0] included, NULL-terminated */
        char *const *env;                   /* NULL-terminated */
        const char *cwd;                    /* absolute */
        const struct user *user;            /* NULL: keep the daemon's */
        int stdin_fd, stdout_fd, stderr_fd; /* become 0, 1, 2; stay the caller's */
        bool is_terminal;                   /* stdin_fd is a terminal: the child gets a new session, controlled by it */
};

/* The child's pid, or negative errno: of clone, of changing user, of entering cwd, or -E2BIG for too long arguments.
 * No child is left behind then. */
pid_t spawn(const struct spawn *sp);

/* Raise the daemon's own limit of open files; children get the limit that the daemon was started with. */
void spawn_raise_nofile(void);
