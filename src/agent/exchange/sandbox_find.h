/* sandbox_find.h - the sandbox that a request is about, as the API shows it to the caller. */
#pragma once
#include <jansson.h>

struct ask_answer;
struct exchange;

/* GET /sandboxes/{id} of the API with the caller's token; x->sandbox has the answer when `next` is called.  No such sandbox, or
 * another team's: the request is answered (404).  At each request anew: what a token may do can change at any time. */
void sandbox_find(struct exchange *x, void (*next)(struct exchange *x));
/* The same; `missing` is called when there is no such sandbox. */
void sandbox_find_or(struct exchange *x, void (*next)(struct exchange *x), void (*missing)(struct exchange *x));
/* The same for what needs the sandbox to run.  One that is paused and that no traffic resumes: 409 "paused". */
void sandbox_find_running(struct exchange *x, void (*next)(struct exchange *x));
/* Fill x->sandbox from an object as the API shows sandboxes.  Negative: it is none. */
int sandbox_take(struct exchange *x, const json_t *shown);
