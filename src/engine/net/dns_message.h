/* dns_message.h - messages of the domain name system (RFC 1035), as far as a forwarder must understand them.  No I/O. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

#define DNS_HEAD_BYTES 12u
#define DNS_QUESTION_MAX (255u + 4u)
#define DNS_REFUSAL_MAX (DNS_HEAD_BYTES + DNS_QUESTION_MAX)

enum dns_code { DNS_FORMAT_ERROR = 1, DNS_SERVER_FAILURE = 2, DNS_NOT_IMPLEMENTED = 4, DNS_REFUSED = 5 };

struct dns_query {
        uint16_t id;
        size_t end; /* of the head and the question; 0: there is no question that could be read */
};

/* A query as programs send it: one question, no transfer of a whole zone, no change.  0; -EBADMSG: no query at all, to be
 * dropped; otherwise the enum dns_code to answer with, and *ret is set as far as it could be read. */
int dns_query_parse(struct str message, struct dns_query *ret);
/* Is it an answer to this query, which was sent with this id? */
bool dns_is_answer(struct str message, struct str query, const struct dns_query *q, uint16_t id);
void dns_set_id(uint8_t *message, uint16_t id);
/* An answer without records; its length. */
size_t dns_refuse(struct str query, const struct dns_query *q, enum dns_code code, uint8_t out[DNS_REFUSAL_MAX]);
