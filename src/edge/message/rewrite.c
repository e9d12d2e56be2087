#include "edge/message/rewrite.h"

#include <string.h>

enum direction { TO_UPSTREAM, TO_CLIENT };

static const struct str never_passed[] = {
        {"connection", 10}, {"content-length", 14},    {"keep-alive", 10}, {"te", 2}, {"trailer", 7}, {"upgrade", 7},
        {"host", 4},        {"transfer-encoding", 17}, {"forwarded", 9}};

/* Only names with these first letters may be dropped; most headers need no further look. */
static bool header_is_suspect(struct str name)
{
        switch (name.p[0] | 0x20) {
        case 'c':
        case 'f':
        case 'h':
        case 'k':
        case 'p':
        case 't':
        case 'u':
        case 'x': return true;
        default: return false;
        }
}

static bool starts_without_case(struct str s, struct str prefix)
{
        return s.n >= prefix.n && str_ieq((struct str){s.p, prefix.n}, prefix);
}

/* An answer may well have a header named Host or Forwarded: its meaning is known to upstream and the client alone. */
static bool header_is_dropped(struct str name, enum direction to)
{
        if (!header_is_suspect(name))
                return false;
        for (size_t i = 0; i < ARRAY_LEN(never_passed); i++)
                if (str_ieq(name, never_passed[i]))
                        return to == TO_UPSTREAM || (!str_ieq(name, STR("host")) && !str_ieq(name, STR("forwarded")));
        return starts_without_case(name, STR("proxy-")) ||
               (to == TO_UPSTREAM && starts_without_case(name, STR("x-forwarded-")));
}

/* Does Connection name other headers?  Nearly all clients send only "keep-alive", "close" and "upgrade". */
static bool connection_names_headers(const struct http1_head *h)
{
        for (size_t i = 0; i < h->header_count; i++) {
                struct str left = h->headers[i].value, token;

                if (!str_iis(h->headers[i].name, "connection"))
                        continue;
                while (left.n) {
                        (void)str_cut(&left, ',', &token);
                        token = str_trim(token);
                        if (token.n && !str_iis(token, "keep-alive") && !str_iis(token, "close") &&
                            !str_iis(token, "upgrade"))
                                return true;
                }
        }
        return false;
}

/* Copy the headers that stay.  Neighbours that both stay are copied in one go, with the line end between them. */
static int copy_headers(const struct http1_head *h, enum direction to, struct buf *out)
{
        bool names = connection_names_headers(h);
        bool ignores_expect = to == TO_UPSTREAM &&
                              h->minor == 0; /* HTTP/1.0 has no Expect, but upstream gets the request as HTTP/1.1 */
        size_t i = 0;
        int r = 0;

        while (i < h->header_count && r == 0) {
                const char *from = h->headers[i].name.p, *end = NULL;

                for (; i < h->header_count; i++) {
                        const struct http1_header *f = &h->headers[i];

                        if (header_is_dropped(f->name, to) || (names && http1_is_hop_by_hop(h, f->name)) ||
                            (ignores_expect && str_ieq(f->name, STR("expect"))))
                                break;
                        end = f->value.p + f->value.n;
                }
                if (end) {
                        r = buf_add(out, from, (size_t)(end - from));
                        if (r == 0)
                                r = buf_add(out, "\r\n", 2);
                } else {
                        i++;
                }
        }
        return r;
}

bool rewrite_is_dropped(const struct http1_head *h, struct str name)
{
        return header_is_dropped(name, TO_CLIENT) || (connection_names_headers(h) && http1_is_hop_by_hop(h, name));
}

static int add_header(struct buf *out, int r, struct str name, struct str value)
{
        return r < 0 ? r : http1_write_header(out, name, value);
}

static int add_framing(struct buf *out, int r, const struct http1_head *h, bool is_chunked)
{
        if (r == 0 && is_chunked)
                return http1_write_header(out, STR("Transfer-Encoding"), STR("chunked"));
        if (r == 0 && h->framing == HTTP1_BODY_LENGTH)
                return http1_write_headerf(out, "Content-Length", "%llu", (unsigned long long)h->content_length);
        return r;
}

static int add_upgrade(struct buf *out, int r, const struct http1_head *h)
{
        r = add_header(out, r, STR("Connection"), STR("Upgrade"));
        return add_header(out, r, STR("Upgrade"), http1_value(h, "upgrade"));
}

int rewrite_request(const struct rewrite_request *rq, struct buf *out)
{
        const struct http1_head *h = rq->head;
        int r;

        r = http1_write_request_line(out, h->method, rq->target);
        r = add_header(out, r, STR("Host"), rq->host);
        if (r == 0)
                r = copy_headers(h, TO_UPSTREAM, out);
        if (rq->orig_host.n)
                r = add_header(out, r, STR("X-Forwarded-Host"), rq->orig_host);
        if (rq->scheme.n)
                r = add_header(out, r, STR("X-Forwarded-Proto"), rq->scheme);
        r = add_framing(out, r, h, h->framing == HTTP1_BODY_CHUNKED);
        if (rq->is_upgrade)
                r = add_upgrade(out, r, h);
        return r < 0 ? r : http1_write_end(out);
}

/* The length of a body that is not sent (HEAD, 304) still tells the client something. */
static int add_absent_length(struct buf *out, int r, const struct http1_head *h)
{
        struct str length = http1_value(h, "content-length");

        if (h->framing != HTTP1_BODY_NONE || !length.n || h->status < 200 || h->status == 204)
                return r;
        return add_header(out, r, STR("Content-Length"), length);
}

int rewrite_response(const struct rewrite_response *rs, struct buf *out)
{
        const struct http1_head *h = rs->head;
        int r;

        r = http1_write_status_line(out, h->status, h->reason);
        if (r == 0)
                r = copy_headers(h, TO_CLIENT, out);
        r = add_framing(out, r, h, rs->is_chunked);
        r = add_absent_length(out, r, h);
        if (rs->is_upgrade)
                r = add_upgrade(out, r, h);
        else if (rs->says_close)
                r = add_header(out, r, STR("Connection"), STR("close"));
        else if (rs->says_persist)
                r = add_header(out, r, STR("Connection"), STR("keep-alive"));
        return r < 0 ? r : http1_write_end(out);
}

bool rewrite_target(struct str method, struct str target, struct str host, struct str *ret)
{
        struct str rest, authority;
        size_t scheme;

        if (target.n && target.p[0] == '/') {
                *ret = target;
                return true;
        }
        if (str_is(target, "*") && str_is(method, "OPTIONS")) {
                *ret = target;
                return true;
        }
        scheme = starts_without_case(target, STR("http://")) ? 7 : starts_without_case(target, STR("https://")) ? 8 : 0;
        if (!scheme)
                return false;
        rest = (struct str){target.p + scheme, target.n - scheme};
        authority = rest;
        for (size_t i = 0; i < rest.n; i++)
                if (rest.p[i] == '/' || rest.p[i] == '?') {
                        authority.n = i;
                        break;
                }
        /* With two different names the edge and the upstream could each take another one. */
        if (!str_ieq(authority, host))
                return false;
        *ret = (struct str){rest.p + authority.n, rest.n - authority.n};
        if (ret->n == 0)
                *ret = STR("/");
        return ret->p[0] == '/';
}

int rewrite_mask(struct str text, unsigned port, struct buf *out)
{
        static const char mark[] = "${PORT}";
        int r = 0;

        while (text.n && r == 0) {
                const char *at = memmem(text.p, text.n, mark, sizeof(mark) - 1);
                size_t before = at ? (size_t)(at - text.p) : text.n;

                r = buf_add(out, text.p, before);
                if (r == 0 && at)
                        r = buf_addf(out, "%u", port);
                before += at ? sizeof(mark) - 1 : 0;
                text = (struct str){text.p + before, text.n - before};
        }
        return r;
}
