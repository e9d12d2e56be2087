/* background.h - commands of a session that run in the background: start, read, write, kill, list.
 *
 * A command keeps the newest BACKGROUND_KEPT_BYTES of its output.  Whoever reads says from which byte on, so several readers do not
 * disturb each other.  A command that has ended stays in the list until its session ends or BACKGROUND_MAX newer ones are there. */
#pragma once
#include <stdbool.h>

struct workbench;

#define BACKGROUND_KEPT_BYTES (1u << 20)
#define BACKGROUND_MAX 64u

bool background_runs(const struct workbench *w); /* one of them at least */
void background_end_all(struct workbench *w);    /* kills those that run */
