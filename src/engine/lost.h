/* lost.h - moving aside what control does not know, and bringing it back (lost_note.h: what lies there).
 *
 * Nothing goes from the disk because nobody names it: control asks for `lose`, an operator for `restore` or `remove`, and
 * what lies there longer than `lost_days` is removed, when the engine starts and once in an hour.  Files are moved by the
 * disk helper (disk.h), looked at and brought back by job processes (job_lost.c). */
#pragma once
#include "engine/guest/deferred.h"
#include "engine/guest/engine.h"
#include "engine/records/lost_note.h"

void lost_start(struct engine *e); /* remove what lies here too long, now and from time to time */

/* What control may ask: docs/internals/messages.md. */
request_op lost_op_lose, lost_op_list, lost_op_restore, lost_op_remove;
