/* request.h - what becomes of a request's head: where it goes, whether it may, and the connection it goes on. */
#pragma once
#include "wire/http1.h"

struct answer;
struct edge_client;

/* c's request head (at the front of c->in) is complete: send it on its way, wait, or answer.  Called again with the same
 * head after a wait. */
void request_begin(struct edge_client *c, const struct http1_head *h);
/* Answer in the current exchange's name: fills in what the exchange knows. */
void request_answer(struct edge_client *c, const struct answer *a);
/* The wait timer fired: nobody came. */
void request_on_wait_over(struct edge_client *c);
