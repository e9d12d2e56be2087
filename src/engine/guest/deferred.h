/* deferred.h - requests that wait until a sandbox is paused, or until it is known what became of a busy one. */
#pragma once
#include "engine/guest/guest.h"

typedef int request_op(struct engine *e, const json_t *msg, struct ask *a, struct err *err);

/* Run the request again, with the same message, when the sandbox is paused, or when it is known what it is. */
int deferred_add(struct guest *s, request_op *run, const json_t *msg, struct ask *a, struct err *err);
void deferred_run(struct guest *s);
void deferred_fail(struct guest *s, const struct err *err);
