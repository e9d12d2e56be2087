/* endpoint.h - the HTTP side: which path, which token, which session; heads and whole answers.
 *
 *      POST, GET, DELETE /mcp                  streamable HTTP
 *      GET /sse, POST /messages?sessionId=...  HTTP+SSE, the transport of 2024-11-05
 *      GET /health                             200, without a token */
#pragma once
#include <jansson.h>

struct http_request;
struct session;

void endpoint_on_request(struct http_request *rq, void *mcp); /* of the HTTP server */
/* Answers name the session, where there is one. */
void endpoint_start_events(struct http_request *rq, const struct session *s);
/* body NULL: 202, there is nothing to say. */
void endpoint_reply_json(struct http_request *rq, const struct session *s, const json_t *body);
