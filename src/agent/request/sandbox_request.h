/* sandbox_request.h - the bodies of POST /sandboxes and of what is done with one, turned into those of the API.  Pure. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct err;

#define SANDBOX_TIMEOUT_S 3600u /* of a sandbox whose request names none: an agent's work takes long */
#define SANDBOX_TEMPLATE                                                                                               \
        "agents-backend-sandbox" /* of a request that names none, where the server has it; else "base" */

/* The body for the API's POST /v2/sandboxes; new.  *ret_named false: the request names no template, and templateID is left out.
 * ERR_INVALID names the field. */
int sandbox_request_decode(const json_t *body, uint32_t timeout_max_s, json_t **ret, bool *ret_named, struct err *err);
/* {"timeout_s"} (required or not), {"memory"}, {"count"}, {"name"}: the body for the API; new. */
int timeout_request_decode(const json_t *body, bool is_required, json_t **ret, struct err *err);
int pause_request_decode(const json_t *body, json_t **ret, struct err *err);
int resume_request_decode(const json_t *body, uint32_t timeout_max_s, json_t **ret, struct err *err);
int fork_request_decode(const json_t *body, uint32_t timeout_max_s, json_t **ret, struct err *err);
int snapshot_request_decode(const json_t *body, json_t **ret, struct err *err);
