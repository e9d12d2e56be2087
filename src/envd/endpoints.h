/* endpoints.h - the endpoints that are neither files nor calls: /health, /init, /envs, /metrics. */
#pragma once

struct envd;
struct http_request;

void endpoint_health(struct envd *e, struct http_request *rq);
void endpoint_init(struct envd *e, struct http_request *rq);
void endpoint_envs(struct envd *e, struct http_request *rq);
void endpoint_metrics(struct envd *e, struct http_request *rq);
