/* agent_workers.h - commands that an agent on this machine has done by workers in sandboxes (mode hybrid).
 *
 * The script asks by a message {type: "sandglass", event: "worker", id, worker, command, timeout}; the answer is a line of its
 * input.  A command that takes longer than `timeout` seconds is ended. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "sandglass-modes.h"

#define AGENT_OUTPUT_MAX 20000u /* of one command, for the agent */

struct agent_workers {
        struct sg_runner *runner; /* borrowed */
        int answers;              /* borrowed: a pipe that does not block; -1: there are no workers */
};

bool agent_workers_asks(const json_t *message);
/* Does what is asked, and answers; what went wrong is an answer, too.  Negative: the script does not read answers. */
int agent_workers_serve(struct agent_workers *w, const json_t *message, const struct sg_call *call);
