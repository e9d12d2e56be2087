/* registry_request.h - one GET to a registry, with all that may happen on the way: it asks for credentials, sends us elsewhere, is
 * busy, or the connection is cut.
 *
 * registry_request_advance() is called when its fetch is done or its time has come, until the state is REQUEST_DONE or
 * REQUEST_FAILED. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "puller/fetch.h"
#include "puller/registry.h"

enum registry_request_state {
        REQUEST_WAITING, /* for due_ms */
        REQUEST_RUNNING, /* its fetch */
        REQUEST_DONE,
        REQUEST_FAILED, /* with err */
};

struct registry_request {
        struct registry *registry;  /* borrowed */
        char url[REGISTRY_URL_MAX]; /* at the origin */
        char *elsewhere;            /* owned: where we were sent; NULL: the origin */
        const char *accept;
        struct fetch_options options;                  /* body_max, on_data, arg are the caller's */
        uint64_t from;                                 /* where the next attempt begins; the receiver moves it on */
        int (*on_restart)(void *arg, struct err *err); /* the bytes so far are void; NULL: nothing to do */
        enum registry_request_state state;
        struct err err;
        struct fetch fetch;
        uint64_t due_ms;
        uint64_t from_before; /* `from` at the last attempt */
        unsigned redirects, refusals, failures, attempts;
        unsigned authorized_as; /* registry's number when it was sent */
};

/* path: below "/v2/<name>/".  ERR_INVALID: too long. */
int registry_request_init(struct registry_request *q, struct registry *r, const char *path, const char *accept,
                          struct err *err);
void registry_request_advance(struct registry_request *q);
void registry_request_done(struct registry_request *q);

/* Ask the token service, or take the password: registry->authorization is new afterwards.  ERR_DENIED: there is nothing more to
 * offer. */
int registry_authorize(struct registry *r, const struct challenge *challenge, struct err *err);
