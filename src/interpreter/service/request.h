/* request.h - the bodies of requests, and what is answered when they are wrong.  No I/O.
 *
 * Unknown members are ignored, null and "" count as absent.  Faults are told as a JSON object {"detail":[...]}, one entry
 * per fault, as clients of this API know it. */
#pragma once
#include <jansson.h>

#include "base/str.h"

struct execute_request { /* released by execute_request_done() */
        json_t *body;    /* owned; what follows points into it */
        struct str code;
        const char *context_id; /* NULL: absent */
        const char *language;   /* NULL: absent */
        json_t *variables;      /* borrowed; NULL: absent */
};
/* 0, or -EINVAL with *ret_detail: the answer's body (the caller's reference; NULL out of memory). */
int execute_request_decode(struct str body, struct execute_request *ret, json_t **ret_detail);
void execute_request_done(struct execute_request *rq);

struct context_request {
        json_t *body;         /* owned */
        const char *language; /* NULL: absent */
        const char *cwd;      /* NULL: absent */
};
int context_request_decode(struct str body, struct context_request *ret, json_t **ret_detail);
void context_request_done(struct context_request *rq);
