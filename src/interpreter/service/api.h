/* api.h - the HTTP API of the service: /health, /execute, /contexts. */
#pragma once

struct contexts;
struct http_request;

#define API_BODY_MAX (64u << 20)

/* For http_server_options.on_request; arg: the struct contexts. */
void api_on_request(struct http_request *rq, void *arg);
