/* Fields of an HTTP/2 request, written down: either refused, or a head that parses, ends where it ends, and holds each
 * field once and no other.  Input: a byte of flags, then "name\0value\0" again and again. */
#include "edge/http2/h2_head.h"
#include "fuzz.h"
#include "wire/http1.h"

static struct http1_head head;

struct field {
        struct str name, value;
};

static bool is_ours(struct str name)
{
        return str_iis(name, "connection") || str_iis(name, "upgrade") || str_iis(name, "transfer-encoding") ||
               str_iis(name, "sec-websocket-key") || str_iis(name, "host") || str_iis(name, "cookie");
}

/* The fields in their order, those of ours left out. */
static void must_hold(const struct field *fields, size_t count)
{
        size_t at = 0;

        for (size_t i = 0; i < count; i++) {
                if (fields[i].name.p[0] == ':' || is_ours(fields[i].name))
                        continue;
                while (at < head.header_count && is_ours(head.headers[at].name))
                        at++;
                MUST(at < head.header_count && str_eq(head.headers[at].name, fields[i].name));
                MUST(str_eq(head.headers[at].value, str_trim(fields[i].value)));
                at++;
        }
        while (at < head.header_count && is_ours(head.headers[at].name))
                at++;
        MUST(at == head.header_count);
}

static size_t split(struct str left, struct field *out, size_t max)
{
        size_t count = 0;

        while (left.n && count < max) {
                (void)str_cut(&left, 0, &out[count].name);
                (void)str_cut(&left, 0, &out[count].value);
                if (out[count].name.n)
                        count++;
        }
        return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static struct field fields[200];
        AUTO_FREE uint8_t *copy = fuzz_copy(data, size);
        AUTO_BUF struct buf out = BUF_INIT(56 << 10);
        struct h2_head h;
        bool has_body;
        size_t count, used;

        if (size == 0)
                return 0;
        has_body = copy[0] & 1;
        count = split((struct str){(const char *)copy + 1, size - 1}, fields, ARRAY_LEN(fields));
        h2_head_init(&h);
        for (size_t i = 0; i < count; i++)
                MUST(h2_head_add(&h, fields[i].name, fields[i].value) == 0);
        if (h2_head_write(&h, has_body, &out) < 0) {
                MUST(h.refused_with >= 400 && h.why);
        } else {
                head = (struct http1_head){0};
                if (http1_parse_request(&head, buf_at(&out), out.len, &used) == HTTP1_DONE) {
                        MUST(used == out.len);
                        must_hold(fields, count);
                        MUST(http1_count(&head, "host") <= 1 && http1_count(&head, "cookie") <= 1);
                        MUST(!head.is_upgrade || h2_head_is_connect(&h));
                } else {
                        MUST(head.status_hint);
                }
        }
        h2_head_done(&h);
        return 0;
}
