/* adopt.h - sandboxes that outlived the engine that made them. */
#pragma once
#include "engine/engine.h"
#include "engine/record.h"

struct err;

/* Read a sandbox's record and find its process.  0: it lives, *ret_pidfd is the caller's.  ERR_NOT_FOUND: it is dead, or
 * there never was one; then *ret is empty. */
int adopt_find(int dir, int proc_dir, const char *boot_id, struct record *ret, int *ret_pidfd, struct err *err);

/* Take over every living sandbox below sandboxes/; what is left of dead ones goes to the trash. */
int adopt_all(struct engine *e, struct err *err);
