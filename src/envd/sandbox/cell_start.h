/* cell_start.h - how a waiting cell becomes a sandbox: the receiving side of model/envd_init.h.
 *
 * Runs in: PID 1, before the loop; blocks on the engine. */
#pragma once

struct err;
struct settings;

/* fds 0 to 2 are /dev/null, of the /dev that goes along to the sandbox. */
int cell_start_open_stdio(void);
/* Tell the engine that this cell waits, receive the init message, apply it, enter the root, and drop the capability
 * that only this needed (SYS_ADMIN). 1: done, answer with cell_start_tell_ready(); 0: the engine is gone; negative:
 * answer with cell_start_tell_failed(). */
int cell_start_enter_sandbox(struct settings *s, struct err *err);
void cell_start_tell_ready(void);
void cell_start_tell_failed(const struct err *err);
