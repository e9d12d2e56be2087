/* request.h - a request whose head is complete: where it goes, whether that is allowed, and on which connection. */
#pragma once
#include "wire/http1.h"

struct answer;
struct edge_client;

/* The request's head (at the front of c->in) is complete: send the request, wait, or answer.  Called again with the same head
 * after each wait. */
void request_begin(struct edge_client *c, const struct http1_head *h);
/* Answer the current request: fills in what the exchange knows. */
void request_answer(struct edge_client *c, const struct answer *a);
/* The wait timer fired before the answer came. */
void request_on_wait_over(struct edge_client *c);
