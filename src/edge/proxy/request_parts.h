/* request_parts.h - what the files about a request's way share: request.c (where to), request_sandbox.c (into a sandbox),
 * request_send.c (answering, waiting, sending). */
#pragma once
#include <stdbool.h>

#include "edge/message/answer.h"
#include "edge/proxy/edge_client.h"
#include "wire/http1.h"

struct route_target;

/* Answer with a kind that has its own status and message; or in the form of the API. */
void request_answer_kind(struct edge_client *c, enum answer_kind kind);
void request_answer_api(struct edge_client *c, unsigned status, const char *message);
void request_wait(struct edge_client *c, enum edge_client_state state,
                  unsigned ms); /* in that state, at most so long */
/* The visit has an upstream connection: write the head, and what is already there of the body. */
void request_send(struct edge_client *c, const struct http1_head *h, struct str target);

/* Find the sandbox, check the request, get a connection and send; or wait; or answer. */
void request_send_to_sandbox(struct edge_client *c, const struct http1_head *h, struct str target,
                             const struct route_target *to);
void request_wait_for_control(struct edge_client *c); /* in CLIENT_ROUTE */
/* CLIENT_ROUTE, the wait timer fired: is the answer still likely? */
bool request_may_wait_on(const struct edge_client *c);
void request_wait_on_for_resume(struct edge_client *c); /* CLIENT_RESUME: the wait timer fired */
