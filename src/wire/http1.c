#include "wire/http1.h"

#include <string.h>

#include "wire/http1_chars.h"

enum { SEEN_HOST = 1, SEEN_LENGTH = 2, SEEN_CODING = 4, SEEN_CLOSE = 8, SEEN_KEEP = 16, SEEN_UPGRADE = 32 };

static enum http1_step refuse(struct http1_head *h, enum http1_step step, unsigned status, const char *why)
{
        h->status_hint = status;
        h->why = why;
        return step;
}
static enum http1_step bad(struct http1_head *h, const char *why)
{
        return refuse(h, HTTP1_BAD, 400, why);
}

/* ---- start line; these and the header functions say HTTP1_MORE for "fine, go on" ---- */

static enum http1_step parse_version(struct http1_head *h, struct str s)
{
        if (s.n != 8 || memcmp(s.p, "HTTP/", 5) != 0 || s.p[6] != '.')
                return bad(h, "malformed version");
        if (s.p[5] < '0' || s.p[5] > '9' || s.p[7] < '0' || s.p[7] > '9')
                return bad(h, "malformed version");
        if (s.p[5] != '1' || s.p[7] > '1')
                return refuse(h, HTTP1_UNSUPPORTED, 505, "unsupported version");
        h->minor = (unsigned)(s.p[7] - '0');
        return HTTP1_MORE;
}

static enum http1_step parse_request_line(struct http1_head *h, struct str line)
{
        struct str method, target;

        if (!str_cut(&line, ' ', &method) || !str_cut(&line, ' ', &target))
                return bad(h, "malformed request line");
        if (method.n == 0 || !http1_all(method, HTTP1_CHAR_TOKEN))
                return bad(h, "malformed method");
        if (target.n == 0 || !http1_all(target, HTTP1_CHAR_TARGET))
                return bad(h, "malformed target");
        h->method = method;
        h->target = target;
        h->status = 0;
        h->reason = (struct str){0};
        return parse_version(h, line);
}

static enum http1_step parse_status_line(struct http1_head *h, struct str line)
{
        struct str version, code;
        enum http1_step step;
        uint32_t status;

        if (!str_cut(&line, ' ', &version))
                return bad(h, "malformed status line");
        step = parse_version(h, version);
        if (step != HTTP1_MORE)
                return step;
        (void)str_cut(&line, ' ', &code); /* the blank before an empty reason is often left out */
        if (code.n != 3 || parse_u32(code, 100, 999, &status) < 0)
                return bad(h, "malformed status");
        if (!http1_is_value(line))
                return bad(h, "malformed reason");
        h->method = h->target = (struct str){0};
        h->status = status;
        h->reason = line;
        return HTTP1_MORE;
}

/* ---- headers that decide something ---- */

static enum http1_step see_once(struct http1_head *h, unsigned what, const char *why)
{
        if (h->seen & what)
                return bad(h, why);
        h->seen |= what;
        return HTTP1_MORE;
}

static enum http1_step see_host(struct http1_head *h, struct str value)
{
        if (h->status)
                return HTTP1_MORE;
        if (!http1_all(value, HTTP1_CHAR_HOST))
                return bad(h, "malformed Host");
        return see_once(h, SEEN_HOST, "repeated Host");
}

static enum http1_step see_length(struct http1_head *h, struct str value)
{
        if (parse_u64(value, 0, INT64_MAX, &h->content_length) < 0)
                return bad(h, "malformed Content-Length");
        return see_once(h, SEEN_LENGTH, "repeated Content-Length");
}

static enum http1_step see_coding(struct http1_head *h, struct str value)
{
        if (value.n == 0)
                return bad(h, "empty Transfer-Encoding");
        if (!str_ieq(value, STR("chunked")))
                return refuse(h, HTTP1_UNSUPPORTED, 501, "unsupported transfer coding");
        return see_once(h, SEEN_CODING, "repeated Transfer-Encoding");
}

static void see_connection(struct http1_head *h, struct str value)
{
        if (http1_list_has(value, STR("close")))
                h->seen |= SEEN_CLOSE;
        if (http1_list_has(value, STR("keep-alive")))
                h->seen |= SEEN_KEEP;
        if (http1_list_has(value, STR("upgrade")))
                h->seen |= SEEN_UPGRADE;
}

static enum http1_step see_expect(struct http1_head *h, struct str value)
{
        if (h->status || h->minor == 0) /* RFC 9110 10.1.1: ignored from 1.0 */
                return HTTP1_MORE;
        if (!str_ieq(value, STR("100-continue")))
                return refuse(h, HTTP1_BAD, 417, "unknown expectation");
        h->expect_continue = true;
        return HTTP1_MORE;
}

static enum http1_step see_header(struct http1_head *h, struct str name, struct str value)
{
        switch (name.n) { /* few names share a length, so most headers cost one jump */
        case 4: return str_ieq(name, STR("Host")) ? see_host(h, value) : HTTP1_MORE;
        case 6: return str_ieq(name, STR("Expect")) ? see_expect(h, value) : HTTP1_MORE;
        case 7:
                if (str_ieq(name, STR("Upgrade")))
                        h->is_upgrade = true;
                return HTTP1_MORE;
        case 10:
                if (str_ieq(name, STR("Connection")))
                        see_connection(h, value);
                return HTTP1_MORE;
        case 14: return str_ieq(name, STR("Content-Length")) ? see_length(h, value) : HTTP1_MORE;
        case 17: return str_ieq(name, STR("Transfer-Encoding")) ? see_coding(h, value) : HTTP1_MORE;
        default: return HTTP1_MORE;
        }
}

static enum http1_step parse_header(struct http1_head *h, struct str line)
{
        struct http1_header *to;
        struct str name, value;
        size_t n = 0;

        while (n < line.n && http1_char_is(line.p[n], HTTP1_CHAR_TOKEN))
                n++;
        if (n == 0 && (line.p[0] == ' ' || line.p[0] == '\t'))
                return bad(h, "folded header");
        if (n == 0 || n == line.n || line.p[n] != ':')
                return bad(h, "malformed header name");
        name = (struct str){line.p, n};
        value = str_trim((struct str){line.p + n + 1, line.n - n - 1});
        if (!http1_is_value(value))
                return bad(h, "control character in header");
        if (h->header_count == HTTP1_HEADERS_MAX)
                return refuse(h, HTTP1_TOO_BIG, 431, "too many headers");
        to = &h->headers[h->header_count++];
        to->name = name;
        to->value = value;
        return see_header(h, name, value);
}

/* ---- what all headers together mean ---- */

static enum http1_step check_authority(struct http1_head *h) /* RFC 9112 3.2.2, but a contradiction is refused */
{
        struct str rest = h->target, scheme, authority;
        size_t n = 0;

        if (rest.p[0] == '/' || !(h->seen & SEEN_HOST))
                return HTTP1_MORE;
        if (!str_cut(&rest, ':', &scheme) || !str_starts(rest, "//"))
                return HTTP1_MORE; /* "*", or host:port of CONNECT */
        rest = (struct str){rest.p + 2, rest.n - 2};
        while (n < rest.n && rest.p[n] != '/' && rest.p[n] != '?')
                n++;
        authority = (struct str){rest.p, n};
        if (!str_ieq(authority, http1_value(h, "Host")))
                return bad(h, "Host differs from target");
        return HTTP1_MORE;
}

static bool has_no_body(const struct http1_head *h, bool to_head)
{
        return to_head || h->status < 200 || h->status == 204 || h->status == 304;
}

static enum http1_step settle_framing(struct http1_head *h, bool to_head)
{
        bool has_length = h->seen & SEEN_LENGTH, is_chunked = h->seen & SEEN_CODING;

        if (is_chunked && has_length)
                return bad(h, "Content-Length with Transfer-Encoding");
        if (is_chunked && h->minor == 0)
                return bad(h, "Transfer-Encoding in HTTP/1.0");
        if (h->status && h->status < 200 && (is_chunked || h->content_length))
                return bad(h, "body announced in an interim response");

        if (h->status && has_no_body(h, to_head)) {
                h->framing = HTTP1_BODY_NONE;
                /* Who announces a body with 204 may send one, which must not be taken for the next response. */
                if (h->status == 204 && !to_head && (is_chunked || h->content_length))
                        h->seen |= SEEN_CLOSE;
        } else if (is_chunked) {
                h->framing = HTTP1_BODY_CHUNKED;
        } else if (has_length) {
                h->framing = HTTP1_BODY_LENGTH;
        } else {
                h->framing = h->status ? HTTP1_BODY_EOF : HTTP1_BODY_NONE;
        }
        if (h->framing != HTTP1_BODY_LENGTH)
                h->content_length = 0;
        return HTTP1_MORE;
}

static enum http1_step finish(struct http1_head *h, bool to_head)
{
        enum http1_step step;

        if (!h->status) {
                if (h->minor >= 1 && !(h->seen & SEEN_HOST))
                        return bad(h, "missing Host");
                step = check_authority(h);
                if (step != HTTP1_MORE)
                        return step;
        }
        step = settle_framing(h, to_head);
        if (step != HTTP1_MORE)
                return step;
        h->keep_alive =
                !(h->seen & SEEN_CLOSE) && (h->minor >= 1 || (h->seen & SEEN_KEEP)) && h->framing != HTTP1_BODY_EOF;
        h->is_upgrade = h->is_upgrade && (h->seen & SEEN_UPGRADE) && h->minor >= 1;
        return HTTP1_DONE;
}

/* ---- lines ---- */

static void begin(struct http1_head *h, uintptr_t base)
{
        h->header_count = 0;
        h->content_length = 0;
        h->keep_alive = h->expect_continue = h->is_upgrade = false;
        h->status_hint = 0;
        h->why = NULL;
        h->line = 0;
        h->base = base;
        h->seen = 0;
}

static void move_str(struct str *s, uintptr_t from, const char *to)
{
        if (s->p)
                s->p = to + ((uintptr_t)s->p - from);
}

static void move_to(struct http1_head *h, const char *p) /* the caller's bytes are elsewhere now */
{
        if (h->line) {
                move_str(&h->method, h->base, p);
                move_str(&h->target, h->base, p);
                move_str(&h->reason, h->base, p);
        }
        for (size_t i = 0; i < h->header_count; i++) {
                move_str(&h->headers[i].name, h->base, p);
                move_str(&h->headers[i].value, h->base, p);
        }
        h->base = (uintptr_t)p;
}

static enum http1_step parse(struct http1_head *h, const char *p, size_t n, bool is_response, bool to_head,
                             size_t *ret_used)
{
        size_t end = n < HTTP1_HEAD_MAX ? n : HTTP1_HEAD_MAX;
        enum http1_step step;

        if (n == 0)
                return HTTP1_MORE;
        if (h->scanned == 0)
                begin(h, (uintptr_t)p);
        else if (h->base != (uintptr_t)p)
                move_to(h, p);
        /* Another protocol is not waited for until it sends a line. */
        if (is_response ? p[0] != 'H' : !http1_char_is(p[0], HTTP1_CHAR_TOKEN))
                return bad(h, "not HTTP");

        while (h->scanned < end) {
                const char *lf = memchr(p + h->scanned, '\n', end - h->scanned);
                struct str line;

                if (!lf) {
                        h->scanned = end;
                        break;
                }
                line = (struct str){p + h->line, (size_t)(lf - p) - h->line};
                if (line.n == 0 || line.p[line.n - 1] != '\r')
                        return bad(h, "bare LF");
                line.n--;
                if (h->line == 0)
                        step = is_response ? parse_status_line(h, line) : parse_request_line(h, line);
                else
                        step = line.n ? parse_header(h, line) : finish(h, to_head);
                if (step != HTTP1_MORE && step != HTTP1_DONE)
                        return step;
                h->scanned = h->line = (size_t)(lf - p) + 1;
                if (step == HTTP1_DONE) {
                        *ret_used = h->line;
                        return step;
                }
        }
        if (end < HTTP1_HEAD_MAX)
                return HTTP1_MORE;
        return refuse(h, HTTP1_TOO_BIG, h->line == 0 && !is_response ? 414 : 431, "head too big");
}

enum http1_step http1_parse_request(struct http1_head *h, const void *p, size_t n, size_t *ret_used)
{
        return parse(h, p, n, false, false, ret_used);
}

enum http1_step http1_parse_response(struct http1_head *h, const void *p, size_t n, bool to_head, size_t *ret_used)
{
        return parse(h, p, n, true, to_head, ret_used);
}
