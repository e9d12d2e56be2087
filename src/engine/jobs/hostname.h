/* hostname.h - the name that a sandbox has for itself, set from outside. */
#pragma once

struct err;
struct job_conf;
struct plan_create;

/* uts: its UTS namespace, or a pidfd of a process in it.  ERR_INVALID: the name in the plan is too long. */
int hostname_set(const struct job_conf *c, const struct plan_create *plan, int uts, struct err *err);
