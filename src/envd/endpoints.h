/* endpoints.h - the endpoints that are neither files nor calls: /health, /init, /envs, /metrics. */
#pragma once

struct envd;
struct http_request;

void control_health(struct envd *e, struct http_request *rq);
void control_init(struct envd *e, struct http_request *rq);
void control_envs(struct envd *e, struct http_request *rq);
void control_metrics(struct envd *e, struct http_request *rq);
