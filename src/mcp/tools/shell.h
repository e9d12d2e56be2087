/* shell.h - the shell of a session: one bash that lives from command to command, so that directory, variables and functions stay.
 *
 * bash runs as an interactive shell without a terminal: SIGINT then ends the command, and the shell goes on.  Each command is one line
 * for bash, an eval whose output goes to two pipes, and a line that writes the exit code to a third pipe.
 *
 *      IDLE ──shell_run──> BUSY ──exit code──> IDLE
 *                           │ ──shell_kill──────────> ENDED (the next command begins a new shell)
 *                           └──exit in the command──> ENDED */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"
#include "io/loop.h"
#include "mcp/tools/program.h"

struct err;
struct shell;

#define SHELL_COMMAND_BYTES_MAX (8u << 20)

struct shell_end {
        int exit_code;
        bool has_ended; /* the shell itself is gone, and what it kept */
};

struct shell_listener {
        void (*on_output)(struct shell *sh, enum program_output which, struct str piece, void *arg);
        void (*on_end)(struct shell *sh, const struct shell_end *end,
                       void *arg); /* the shell is idle again, or ended */
        void *arg;
};

int shell_create(struct loop *loop, const char *cwd, struct shell **ret, struct err *err);
struct shell *
shell_free(struct shell *sh); /* kills all of it: the listener hears of that end; always NULL; NULL is fine */
bool shell_is_busy(const struct shell *sh);
bool shell_has_ended(const struct shell *sh);
/* The shell must be idle.  `cwd`: where the shell goes first, from where it is; if it cannot, nothing of the command runs; NULL: it stays.
 * ERR_INVALID: the command or the directory is too long, or the command has a NUL. */
int shell_run(struct shell *sh, struct str command, const char *cwd, const struct shell_listener *listener,
              struct err *err);
void shell_interrupt(struct shell *sh); /* SIGINT for the command */
void shell_kill(struct shell *sh);      /* ends the command with the whole shell */
