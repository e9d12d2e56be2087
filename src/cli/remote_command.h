/* remote_command.h - run one command in a sandbox: its output to ours as it comes, our input to it, its exit code. */
#pragma once
#include <jansson.h>

#include "cli/api.h"

struct err;

struct remote_command_options {
        struct cli_api *api;
        const struct api_sandbox *sandbox;
        char *const *argv;      /* NULL-terminated */
        json_t *env;            /* borrowed, may be NULL: {name: text} */
        const char *cwd, *user; /* NULL: the sandbox's default */
        bool ends_on_signal; /* a signal ends the call at once (the caller kills the sandbox); else it is passed on */
        /* The command gets a terminal of the size of ours, which the caller has set to raw mode (SIGWINCH blocked). */
        bool has_terminal;
        uint32_t attach_pid; /* not 0: no new command; the kept output of this one, and what follows */
        bool ends_caught_up; /* ... without what follows: the code is then 0 */
};

#define EXIT_SIGNALLED 128 /* + number: as shells say it */

/* Returns the exit code (128 + number when a signal ended the command or us), or negative when the command could not be run
 * or was lost.  SIGINT, SIGTERM, SIGHUP must be blocked, SIGPIPE ignored. */
int remote_command_run(const struct remote_command_options *opt, struct err *err);
