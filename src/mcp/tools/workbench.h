/* workbench.h - what the tools keep for a session: its shell, its background commands, its subscriptions.
 *
 * A session gets one with the first tool that needs one.  It ends with the session. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct session;
struct session_watches;
struct shell;

enum shell_loss { SHELL_KEPT, SHELL_RESTED, SHELL_CANCELLED };

struct workbench {
        struct list commands;            /* struct background (background.h) */
        struct list shell_queue;         /* struct run (run_command.c): the first one has the shell */
        struct shell *shell;             /* owned; NULL: none was needed yet */
        enum shell_loss shell_loss;      /* what ended the last shell, and nobody was told yet */
        struct session_watches *watches; /* owned; NULL: no subscription (resources.h) */
        uint32_t next_command;
};

struct workbench *workbench_of(struct session *s); /* NULL: no memory */
bool workbench_is_busy(const struct session *s);   /* a background command runs */
void workbench_rest(struct session *s);            /* ends the shell, which is idle; fine without a workbench */
void workbench_end(struct session *s);             /* ends what runs; fine without a workbench */
