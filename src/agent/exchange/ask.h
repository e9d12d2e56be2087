/* ask.h - a request with JSON both ways, to the API or to a daemon in a sandbox, for an exchange.
 *
 * Both go to the edges, as those of any client.  The answer comes later, out of the loop.  When there is none (the edge or the
 * sandbox is gone, or silent for too long) the exchange is answered here, and its handler does not hear of it. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "http/header.h"
#include "wire/http1.h"

struct agent;
struct exchange;

enum ask_to {
        ASK_API,         /* with the caller's token */
        ASK_API_PATIENT, /* the same, for what may take minutes */
        ASK_DAEMON,      /* of x->sandbox, with its token */
        ASK_PORT,        /* a port of x->sandbox */
        ASK_CREDENTIALS, /* control's socket for them, with the caller's token */
};

struct ask_answer {
        unsigned status;
        json_t *body;    /* borrowed; NULL: none, or no JSON */
        struct str text; /* the body as it came */
        bool is_foreign; /* it comes out of a sandbox */
        const struct http1_head *head;
};

struct ask_options {
        enum ask_to to;
        uint16_t port; /* ASK_PORT */
        const char *method, *target;
        json_t *body;                     /* borrowed; NULL: none */
        bool wants_bytes;                 /* on_answer looks at `text` only: an answer of 200 is not parsed */
        size_t max;                       /* bytes of an answer; 0: what is usual.  Beyond: ERR_TOO_LARGE */
        bool is_secret;                   /* what is sent and answered is blanked before it is released */
        struct str bytes;                 /* instead of it; copied */
        const char *bytes_type;           /* their type; NULL: there are none */
        const struct http_header *header; /* one more; NULL: none */
        const char *user;                 /* ASK_DAEMON: on whose behalf; NULL: the sandbox's default user */
        void (*on_answer)(struct exchange *x, const struct ask_answer *a);
        /* The exchange may end while the request is under way, and the request goes on: its answer comes here then. */
        void (*on_orphan)(struct agent *agent, const char *key, const struct ask_answer *a);
        /* Instead of the exchange's answer, when there is none; NULL: the exchange is answered. */
        void (*on_failure)(struct exchange *x, const struct err *why);
};

void ask(struct exchange *x, const struct ask_options *o);
/* Those with an on_orphan go on. */
void ask_cancel_all(struct exchange *x);
void ask_orphans_done(struct agent *a); /* the role ends */

/* The same error to the client, in the form of this API.  Statuses below 400 are no errors: 502 then.  A 401 of a sandbox is about a
 * user that it does not have, not about the caller's token: 400.  A 500 is what its kernel refuses, as the name of a directory for
 * that of a file: 409. */
void ask_pass_error(struct exchange *x, const struct ask_answer *a);
/* What a connection that broke, or was silent for too long, means to the client. */
void ask_answer_failure(struct exchange *x, const struct err *why);

/* The headers by which a request reaches a port of x->sandbox: at most ASK_HEADERS_MAX, and {NULL, NULL}. */
#define ASK_HEADERS_MAX 6
struct ask_headers {
        struct http_header list[ASK_HEADERS_MAX + 1];
        size_t count;
        char port[8];
};
void ask_headers_of(const struct exchange *x, uint16_t port, struct ask_headers *ret);
