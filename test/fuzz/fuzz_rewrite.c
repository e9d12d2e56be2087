/* A request as it leaves the edge: parses again, means the same, and says nothing that was not for upstream. */
#include "edge/message/rewrite.h"
#include "fuzz.h"

static struct http1_head in, again;

static bool starts(struct str name, struct str prefix)
{
        return name.n >= prefix.n && str_ieq((struct str){name.p, prefix.n}, prefix);
}

static void must_be_clean(const struct http1_head *h)
{
        for (size_t i = 0; i < h->header_count; i++) {
                struct str name = h->headers[i].name;

                MUST(!str_iis(name, "forwarded") && !str_iis(name, "keep-alive") && !str_iis(name, "te"));
                MUST(!str_iis(name, "connection") && !str_iis(name, "upgrade") && !str_iis(name, "trailer"));
                MUST(!starts(name, STR("proxy-")) && !starts(name, STR("x-forwarded-")));
        }
        MUST(http1_count(h, "host") == 1 && http1_count(h, "content-length") <= 1);
}

/* Every header that stays is there, in order, with its value. */
static void must_be_kept(void)
{
        size_t at = 0;

        for (size_t i = 0; i < in.header_count; i++) {
                struct str name = in.headers[i].name;

                if ((in.minor == 0 && str_iis(name, "expect")) || http1_is_hop_by_hop(&in, name) ||
                    str_iis(name, "host") || str_iis(name, "forwarded") || str_iis(name, "content-length") ||
                    str_iis(name, "transfer-encoding") || starts(name, STR("x-forwarded-")) ||
                    starts(name, STR("proxy-")))
                        continue;
                while (at < again.header_count && !str_eq(again.headers[at].name, name))
                        at++;
                MUST(at < again.header_count && str_eq(again.headers[at].value, in.headers[i].value));
                at++;
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        AUTO_FREE uint8_t *copy = fuzz_copy(data, size);
        AUTO_BUF struct buf out = BUF_INIT(1 << 20);
        struct rewrite_request rq = {.head = &in};
        size_t used;

        in = (struct http1_head){0};
        if (http1_parse_request(&in, copy, size, &used) != HTTP1_DONE)
                return 0;
        rq.host = http1_value(&in, "host");
        if (!rewrite_target(in.method, in.target, rq.host, &rq.target))
                return 0;
        MUST(rewrite_request(&rq, &out) == 0);
        again = (struct http1_head){0};
        MUST(http1_parse_request(&again, buf_at(&out), out.len, &used) == HTTP1_DONE || out.len > HTTP1_HEAD_MAX ||
             again.status_hint == 431);
        if (again.status_hint)
                return 0;
        MUST(used == out.len);
        MUST(str_eq(again.method, in.method) && str_eq(again.target, rq.target));
        MUST(again.framing == in.framing && again.content_length == in.content_length);
        must_be_clean(&again);
        must_be_kept();
        return 0;
}
