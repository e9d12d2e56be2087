/* agent_workers.h - commands that an agent on this machine has done by workers in sandboxes (mode hybrid).
 *
 * The script asks by a message {type: "sandglass", event: "worker", id, worker, command, timeout}; the answer is a line of its
 * input.  A command that takes longer than `timeout` seconds is ended.  Of its output the agent gets the first AGENT_OUTPUT_MAX
 * bytes, and a note that says how much is missing. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "sandglass-modes.h"

#define AGENT_OUTPUT_MAX 20000u      /* bytes of one command, for the agent */
#define AGENT_UNREAD_MAX (16u << 20) /* a request with the largest prompt has 6 MiB */

struct patience;

struct agent_workers {
        struct sg_runner *runner;  /* borrowed */
        int answers;               /* borrowed: a pipe that does not block; -1: there are no workers */
        struct patience *patience; /* borrowed: with a template that is being built; NULL: none */
        struct buf unread;         /* owned: what the pipe has no room for yet; BUF_INIT(AGENT_UNREAD_MAX) */
};

void agent_workers_done(struct agent_workers *w);
/* A line of input for the script, sent as the script reads.  -E2BIG: it does not read. */
int agent_workers_send(struct agent_workers *w, const char *line);
/* To be called now and then, as long as something is unread.  Negative: it cannot be sent any more. */
int agent_workers_flush(struct agent_workers *w);

bool agent_workers_asks(const json_t *message);
/* Does what is asked, and answers; what went wrong is an answer, too.  Negative: the script does not read answers. */
int agent_workers_serve(struct agent_workers *w, const json_t *message, const struct sg_call *call);
