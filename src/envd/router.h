/* router.h - from a request to its handler: CORS, access token, user, then the path. */
#pragma once

struct http_request;

/* on_request of the server; arg is the struct envd. */
void router_on_request(struct http_request *rq, void *arg);
