/* relay.h - an answer of the API or of a sandbox that is passed on as it comes: bytes of a file, an archive, a stream of events;
 * and a body that is passed on likewise. */
#pragma once
#include <stdbool.h>

#include "agent/exchange/ask.h"

struct relay_options {
        enum ask_to to;
        const char *method, *target;
        bool sends_body;                  /* the client's body goes along, of this type */
        const char *content_type;         /* of that body */
        const struct http_header *header; /* one more; NULL: none */
        /* An answer of 200: passed on to the client.  Content type of the answer; NULL: as it came. */
        const char *answer_type;
        /* Instead of that: the answer is read whole, as of ask(). */
        void (*on_answer)(struct exchange *x, const struct ask_answer *a);
};

/* Errors of the other side become errors of this API.  An answer that breaks off is cut here, too. */
void relay(struct exchange *x, const struct relay_options *o);
