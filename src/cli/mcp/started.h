/* started.h - when the background commands began that were started here, and how long those ran that have ended.  For any thread.
 *
 * A sandbox does not say when a command ended.  Who waited for the end knows; who comes later knows only that it was not later. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct started;

#define STARTED_MAX 4096u /* the oldest ones are forgotten */

struct started_time {
        bool is_known; /* the command was started here */
        bool is_exact; /* of one that has ended: somebody saw the end */
        uint64_t us;   /* since its start, or from its start to its end: at most */
};

struct started *started_create(void);            /* NULL: no memory */
struct started *started_free(struct started *s); /* always NULL */
void started_note(struct started *s, const char *sandbox_id, uint32_t pid);
/* has_ended: the first one that says so is right.  is_seen: the end was waited for. */
struct started_time started_look(struct started *s, const char *sandbox_id, uint32_t pid, bool has_ended, bool is_seen);
