/* shortcut.h - the middle of a long body goes from one plain socket to another without passing through our memory.
 *
 * What the sink does not take is read into the flow's `out`, as on the ordinary way, so that the one pipe of the edge is
 * always empty in between.  The last bytes of a body take the ordinary way, which knows what follows. */
#pragma once
#include <stdbool.h>

struct edge;
struct flow;

struct shortcut { /* zeroed: not there yet */
        int pipe[2];
        bool is_open;
};

void shortcut_done(struct shortcut *s);
/* Is there enough left of the body for it? */
bool shortcut_fits(const struct flow *f);
/* true: bytes were passed on (or wait in f->out).  false: nothing was taken; go the ordinary way. */
bool shortcut_take(struct edge *e, struct flow *f, int source, int sink);
