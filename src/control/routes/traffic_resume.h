/* traffic_resume.h - traffic resumes a paused sandbox whose owner allows that: for the edges, through route_feed.h.
 *
 * Many requests at many edges resume the sandbox once; all of them wait for the same life.  For envd's port of a secured
 * sandbox a request needs the sandbox's token; traffic tokens are the edge's to check. */
#pragma once
#include <jansson.h>

struct edge_resume;
struct route_server;

/* Answers w, now or later. */
void traffic_resume_begin(struct route_server *rs, struct edge_resume *w, const json_t *msg);
void traffic_resume_forget(struct edge_resume *w); /* no edge waits for it any more */
