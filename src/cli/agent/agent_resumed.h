/* agent_resumed.h - the end of a sandbox whose resuming was interrupted, or failed half way: the same as at any other end. */
#pragma once
#include "sandglass-modes.h"

/* 1: the sandbox is as `how` says; 0: nothing runs there that this program could end; negative: *err says why it may run on. */
int agent_resumed_end(struct sg_client *client, const char *id, enum sg_close how, const struct sg_call *call,
                      struct sg_error *err);
