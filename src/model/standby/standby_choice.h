/* standby_choice.h - which templates have standbys (sandboxes restored ahead), and what to do next about them.  Pure.
 *
 * Control chooses the templates: those that were used a short time ago, the one used last first.  The engine works towards that
 * choice, one step at a time, within its budget of memory. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define STANDBY_KINDS_MAX 32u                              /* templates with standbys, at a time */
#define STANDBY_RECENT_NS (30ll * 60 * 1000 * 1000 * 1000) /* a template that nobody used for longer has none */

/* ---- which templates ---- */

struct standby_use { /* of one template: of what one of its tags points to */
        int64_t used_ns;
        void *arg; /* the caller's */
};
/* Sort, the one used last first, and say how many of them have standbys. */
size_t standby_choose(struct standby_use *uses, size_t count, int64_t now_ns);

/* ---- the next step ---- */

struct standby_state { /* of one template; in the order of standby_choose() */
        unsigned wanted, there;
        uint64_t bytes_each; /* of memory; 0: not known yet */
};
struct standby_budget {
        uint64_t bytes_used, bytes_max;
};
struct standby_step {
        enum { STANDBY_NOTHING, STANDBY_MAKE, STANDBY_DROP } what;
        size_t of; /* which template */
};
/* Every template gets a first one before any gets a second.  Where there is too much, the last of that order goes first. */
struct standby_step standby_next(const struct standby_state *states, size_t count, const struct standby_budget *b);
