/* exchange.h - one request with a whole answer, on a lane: sent again where that does no harm, within the limit.
 *
 * Long streams (commands, watches) are not exchanges: command/stream.h. */
#pragma once
#include "base/buf.h"
#include "client/client.h"
#include "client/lane.h"

#define ANSWER_MAX (16u << 20)

struct exchange {
        const char *url; /* of the server */
        const char *method, *target;
        const struct http_header *headers;
        const char *content_type; /* NULL: none */
        struct str body;
        bool sends_fd; /* the body is what comes from `fd`, to its end */
        int fd;
        void (*on_sent)(uint64_t bytes, void *arg); /* of fd; NULL: not told */
        bool repeats;                               /* done twice it does the same as done once */
        /* A refusal by the edge of a sandbox's server (502, 503) is final: what answers is not the server itself. */
        bool is_to_sandbox;
        size_t answer_max; /* 0: ANSWER_MAX; more is SG_TOO_LARGE */
        /* Pieces of an answer of 2xx, instead of ret->body.  Negative: the exchange ends with SG_CANCELLED. */
        int (*on_body)(int status, struct str piece, void *arg);
        void *arg;
        bool writes_fd; /* an answer of 2xx is written to `to_fd`, instead of ret->body */
        int to_fd;
};

struct exchange_answer {
        unsigned status; /* any */
        uint32_t retry_after_s;
        char next_token[512]; /* X-Next-Token; "": none */
        struct buf body;
};
void exchange_answer_done(struct exchange_answer *a);

/* 0: an answer has come, with any status. */
int exchange_run(struct sg_client *client, const struct exchange *x, struct limit *l, struct exchange_answer *ret,
                 struct sg_error *err);
/* The same; a status other than 2xx is an error in the server's words. */
int exchange_run_ok(struct sg_client *client, const struct exchange *x, struct limit *l, struct exchange_answer *ret,
                    struct sg_error *err);

/* How long to wait before try number `tries` + 1; retry_after_s of the answer before, 0: it did not say. */
uint64_t retry_pause_ms(unsigned tries, uint32_t retry_after_s);
