/* fault.h - run a scenario again and again, the first, second, third ... allocation failing, until none fails any more.
 *
 * malloc and its kin are wrapped by the linker (see meson.build), and jansson is told to use the wrapped ones; so are
 * the system calls that make what an object lives on (epoll_create1, epoll_ctl adding, eventfd and the like).
 * After each run as much memory and as many fds are in use as before it.
 *
 * A scenario returns 0 when it got through (also past a failure that is allowed to have no effect), a negative errno when
 * it failed in an orderly way, and BROKEN(...) when something is not as promised. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define BROKEN(what) fault_broken(__FILE__, __LINE__, what)
#define MUST(cond)                                                                                                     \
        do {                                                                                                           \
                if (!(cond))                                                                                           \
                        return BROKEN(#cond);                                                                          \
        } while (0)

int fault_broken(const char *file, int line, const char *what); /* 1 */

/* One TAP line. */
void fault_each(const char *name, int (*scenario)(void));
#define EACH(scenario) fault_each(#scenario, scenario)
/* The same for a scenario that cannot succeed when an allocation failed: it must say -ENOMEM. */
void fault_each_enomem(const char *name, int (*scenario)(void));
#define EACH_ENOMEM(scenario) fault_each_enomem(#scenario, scenario)
int fault_done(void);

/* Has the failure of this run been used up?  (Then everything from here on must succeed.) */
bool fault_was_hit(void);
/* A part of a scenario that is the test's own and must not fail. */
void fault_pause(void);
void fault_resume(void);
