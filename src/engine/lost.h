/* lost.h - moving aside what control does not know, and bringing it back (lost_note.h: what lies there).
 *
 * Nothing goes from the disk because nobody names it: control asks for `lose`, an operator for `restore` or `remove`, and
 * what lies there longer than `lost_days` is removed, when the engine starts and once in an hour. */
#pragma once
#include "engine/deferred.h"
#include "engine/engine.h"
#include "engine/lost_note.h"

/* One rename.  Negative: it stays where it is; logged. */
int lost_keep(struct engine *e, int dir, const char *name, const struct lost_note *note);
void lost_start(struct engine *e); /* remove what lies here too long, now and from time to time */

/* What control may ask: docs/internals/messages.md. */
request_op lost_op_lose, lost_op_list, lost_op_restore, lost_op_remove;
