/* cell_start.h - how a waiting cell becomes a sandbox: the receiving side of model/envd_init.h.
 *
 * Runs in: PID 1, before the loop; blocks on the engine. */
#pragma once

struct err;
struct settings;

/* Occupy fds 0 to 2, so that nothing of ours lands there; later the sandbox's /dev/null. */
int cell_hold_stdio(void);
/* Say that we wait, take the init message, enter the root, apply it, and give up what only this needed (SYS_ADMIN).
 * 1: done, answer with cell_ready(); 0: the engine is gone; negative: answer with cell_failed(). */
int cell_enter(struct settings *s, struct err *err);
void cell_ready(void);
void cell_failed(const struct err *err);
