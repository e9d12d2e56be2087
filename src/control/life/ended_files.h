/* ended_files.h - files of sandboxes that ended by themselves, or with the machine.
 *
 * The engine keeps the files until their sandbox's row is gone on disk: a power cut could bring back a row that says "paused",
 * and then files that are neither paused nor running say what has happened.  So: row removed, store flushed, "drop".  Files
 * that cannot be dropped now are in the engine's next list. */
#pragma once
#include "base/list.h"
#include "control/catalogue/durable.h"
#include "control/engine_link/engine_link.h"

struct ended_files {
        struct loop *loop;
        struct engine_link *engine; /* borrowed, as the next */
        struct durable *durable;
        struct list all; /* struct ended_sandbox, owned */
        struct timer go;
        struct durable_waiter flushed;
        struct engine_call drop;
};

void ended_files_init(struct ended_files *e, struct loop *loop, struct engine_link *engine, struct durable *durable);
void ended_files_done(struct ended_files *e); /* also zeroed */

void ended_files_drop(struct ended_files *e, const char *sandbox); /* the sandbox's row was removed, or there is none */
