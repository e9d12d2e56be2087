/* restore_freeze.h - a restored sandbox is frozen before one instruction of its programs has run.
 *
 * Called when CRIU has everything in place: every restored task stands still under CRIU's hand (ptrace).  The group is told to
 * freeze.  When CRIU lets go, the kernel stops each task on its way back to its program.  CRIU itself was born in the same v2
 * group, and has to leave it first. */
#pragma once

struct err;
struct job_conf;

int restore_freeze(const struct job_conf *c, unsigned slot, struct err *err);
