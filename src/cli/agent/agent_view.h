/* agent_view.h - the messages of an agent, for people: what the agent says, the tools it uses, how it ended.
 *
 * What comes from an agent is text from outside: control characters do not reach the terminal. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define AGENT_SESSION_MAX 64u

struct agent_view {   /* zeroed, with `out` and `notes` */
        FILE *out;    /* what the agent says and does; borrowed */
        FILE *notes;  /* progress and errors; borrowed */
        bool is_json; /* messages are printed elsewhere; only notes are shown */

        char session[AGENT_SESSION_MAX + 1]; /* of the agent; "": not told yet */
        bool has_result, has_failed;
        char failure[200]; /* why; "": not told */
};

/* One message of the Agent SDK, or one of our own script (type "sandglass"). */
void agent_view_show(struct agent_view *v, const json_t *message);
/* The message as a line of JSON, in ASCII without control characters: as it came, its strings might hold some. */
void agent_view_json(struct agent_view *v, const json_t *message);
/* A line that is no message, for example of npm. */
void agent_view_text(struct agent_view *v, const char *text);
