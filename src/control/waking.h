/* waking.h - traffic wakes a paused sandbox that wants it: for the edges, through feed.h.
 *
 * Many requests at many edges wake it once; all of them wait for the same life.  Who may: for the daemon's port of a
 * secured sandbox whoever has its token; traffic tokens are the edge's to check. */
#pragma once
#include <jansson.h>

struct control;
struct feed_wake;

void waking_begin(struct control *c, struct feed_wake *w, const json_t *msg); /* answers w, now or later */
void waking_forget(struct feed_wake *w);                                      /* nobody waits any more */
