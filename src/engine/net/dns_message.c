#include "engine/net/dns_message.h"

#include <errno.h>

#define FLAG_ANSWER 0x80u /* in byte 2 */
#define OPCODE_MASK 0x78u /* in byte 2; 0: a query */
#define WANTS_RECURSION 0x01u
#define FLAG_RECURSION 0x80u /* in byte 3 */
#define CODE_MASK 0x0fu
#define LABEL_MAX 63u
#define NAME_MAX_BYTES 255u

enum { TYPE_IXFR = 251, TYPE_AXFR = 252 };

static uint16_t number_at(struct str m, size_t at)
{
        return (uint16_t)((uint8_t)m.p[at] << 8 | (uint8_t)m.p[at + 1]);
}

/* Behind the name and its type and class; 0: it is not one.  A name in a question is never compressed. */
static size_t find_question_end(struct str m)
{
        size_t at = DNS_HEAD_BYTES;

        for (;;) {
                uint8_t label;

                if (at >= m.n || at - DNS_HEAD_BYTES >= NAME_MAX_BYTES)
                        return 0;
                label = (uint8_t)m.p[at++];
                if (label == 0)
                        return m.n - at >= 4 ? at + 4 : 0;
                if (label > LABEL_MAX || label >= m.n - at)
                        return 0;
                at += label;
        }
}

int dns_query_parse(struct str m, struct dns_query *ret)
{
        uint16_t type;

        *ret = (struct dns_query){0};
        if (m.n < DNS_HEAD_BYTES || (uint8_t)m.p[2] & FLAG_ANSWER)
                return -EBADMSG;
        ret->id = number_at(m, 0);
        if ((uint8_t)m.p[2] & OPCODE_MASK)
                return DNS_NOT_IMPLEMENTED;
        if (number_at(m, 4) != 1)
                return DNS_FORMAT_ERROR;
        ret->end = find_question_end(m);
        if (ret->end == 0)
                return DNS_FORMAT_ERROR;
        type = number_at(m, ret->end - 4);
        return type == TYPE_AXFR || type == TYPE_IXFR ? DNS_REFUSED : 0;
}

/* Servers may change the case of letters. */
static bool is_same_question(struct str m, struct str query, size_t end)
{
        return m.n >= end && str_ieq((struct str){m.p + DNS_HEAD_BYTES, end - DNS_HEAD_BYTES},
                                     (struct str){query.p + DNS_HEAD_BYTES, end - DNS_HEAD_BYTES});
}

bool dns_is_answer(struct str m, struct str query, const struct dns_query *q, uint16_t id)
{
        if (m.n < DNS_HEAD_BYTES || !((uint8_t)m.p[2] & FLAG_ANSWER) || number_at(m, 0) != id)
                return false;
        if (number_at(m, 4) == 0)
                return ((uint8_t)m.p[3] & CODE_MASK) != 0; /* some errors come without the question */
        return is_same_question(m, query, q->end);
}

void dns_set_id(uint8_t *message, uint16_t id)
{
        message[0] = (uint8_t)(id >> 8);
        message[1] = (uint8_t)id;
}

size_t dns_refuse(struct str query, const struct dns_query *q, enum dns_code code, uint8_t out[DNS_REFUSAL_MAX])
{
        size_t n = q->end > DNS_HEAD_BYTES && q->end <= DNS_REFUSAL_MAX ? q->end : DNS_HEAD_BYTES;

        memset(out, 0, DNS_HEAD_BYTES);
        if (n > DNS_HEAD_BYTES)
                memcpy(out + DNS_HEAD_BYTES, query.p + DNS_HEAD_BYTES, n - DNS_HEAD_BYTES);
        dns_set_id(out, q->id);
        out[2] = (uint8_t)(FLAG_ANSWER | ((uint8_t)query.p[2] & (OPCODE_MASK | WANTS_RECURSION)));
        out[3] = (uint8_t)(FLAG_RECURSION | code);
        out[5] = n > DNS_HEAD_BYTES; /* questions */
        return n;
}
