/* rest.h - requests to the REST API with JSON both ways. */
#pragma once
#include <jansson.h>

#include "client/exchange.h"

#define REST_TARGET_MAX 8192u
#define LONG_WORK_MS (30u * 60 * 1000) /* pause, copy: a large memory on a slow disk */

struct rest_request {
        const char *method;
        const char *target; /* with a %s in it: `name`, percent-encoded */
        const char *name;   /* NULL: there is no %s */
        json_t *body;       /* stolen; NULL: none */
        bool repeats;       /* GET, PUT and DELETE do anyway */
        char *next;         /* NULL, or 512 bytes: the token of the next page, "" if there is none */
        uint32_t usual_ms;  /* time limit of a call that names none; 0: the client's */
};

/* The target with `name` (may be NULL) percent-encoded in the place of %s.  0 or negative errno. */
int target_write(const char *target, const char *name, struct buf *out);
/* *ret (may be NULL) is the caller's, NULL for an empty answer. */
int rest_call(struct sg_client *client, const struct rest_request *a, struct limit *l, json_t **ret,
              struct sg_error *err);
/* With the call's own limit. */
int rest_run(struct sg_client *client, const struct rest_request *a, const struct sg_call *call, json_t **ret,
             struct sg_error *err);
/* All pages of a list, at most `max` items; `query` has a ? already.  *ret_array is the caller's. */
int rest_list(struct sg_client *client, const char *query, size_t max, struct limit *l, json_t **ret_array,
              struct sg_error *err);
/* A call that not every server has failed with *why: SG_UNSUPPORTED where that is the reason, else *why. */
int explain_missing_call(struct sg_client *client, const char *id, const char *snapshot_id /* NULL: none is needed */,
                         const char *what, const struct sg_call *call, const struct sg_error *why,
                         struct sg_error *err);
