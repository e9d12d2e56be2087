#include "engine/net/dns_message.h"
#include "fuzz.h"

/* A query, and what comes back for it: one text, cut in two by its first byte. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        AUTO_FREE uint8_t *copy = fuzz_copy(data, size);
        struct str s = {(const char *)copy, size};
        uint8_t out[DNS_REFUSAL_MAX];
        struct str query = s, reply = {s.p, 0};
        struct dns_query q, again;
        int r;

        if (s.n > 0 && (uint8_t)s.p[0] < s.n) {
                query = (struct str){s.p + 1, (uint8_t)s.p[0]};
                query.n = query.n < s.n - 1 ? query.n : s.n - 1;
                reply = (struct str){query.p + query.n, s.n - 1 - query.n};
        }
        r = dns_query_parse(query, &q);
        if (r < 0)
                return 0;
        MUST(q.end <= query.n && (r == DNS_FORMAT_ERROR || r == DNS_NOT_IMPLEMENTED || q.end >= DNS_HEAD_BYTES + 5));
        if (r == 0)
                (void)dns_is_answer(reply, query, &q, q.id);
        MUST(dns_refuse(query, &q, DNS_SERVER_FAILURE, out) <= DNS_REFUSAL_MAX);
        MUST(dns_query_parse((struct str){(const char *)out, DNS_HEAD_BYTES}, &again) < 0); /* an answer is no query */
        return 0;
}
