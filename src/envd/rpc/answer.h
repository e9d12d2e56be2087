/* answer.h - whole answers of the REST endpoints.  Each carries the CORS headers that a browser needs. */
#pragma once
#include <jansson.h>

#include "base/auto.h"
#include "http/server.h"

#define ANSWER_HEADERS_MAX 12

struct answer_headers { /* for http_reply() and http_start(): values are borrowed */
        struct http_header list[ANSWER_HEADERS_MAX + 1];
        size_t count;
};
/* Begin the list with the CORS headers that this request asks for. */
void answer_headers_init(struct answer_headers *h, const struct http_request *rq);
void answer_headers_add(struct answer_headers *h, const char *name, const char *value);

void answer_bytes(struct http_request *rq, unsigned status, const char *content_type, const void *body, size_t len);
void answer_json(struct http_request *rq, unsigned status, json_t *body); /* steals body; NULL: out of memory, 500 */
/* {"code":status,"message":"..."} */
void answer_error(struct http_request *rq, unsigned status, const char *fmt, ...) PRINTF(3, 4);
void answer_text(struct http_request *rq, unsigned status, const char *text); /* text/plain */
void answer_no_content(struct http_request *rq, const char *extra_name, const char *extra_value);
void answer_bad_method(struct http_request *rq, const char *allow /* NULL: no such header */);
/* True: the request is a CORS preflight, and has been answered. */
bool answer_preflight(struct http_request *rq);
