#include <errno.h>
#include <string.h>

#include "wire/http1.h"
#include "wire/http1_chars.h"

static uint8_t *put(uint8_t *at, struct str s)
{
        if (s.n)
                memcpy(at, s.p, s.n);
        return at + s.n;
}

int http1_write_request_line(struct buf *out, struct str method, struct str target)
{
        static const char tail[] = " HTTP/1.1\r\n";
        size_t n = method.n + 1 + target.n + sizeof(tail) - 1;
        uint8_t *at;
        int r;

        if (method.n == 0 || !http1_all(method, HTTP1_CHAR_TOKEN))
                return -EINVAL;
        if (target.n == 0 || !http1_all(target, HTTP1_CHAR_TARGET))
                return -EINVAL;
        r = buf_reserve(out, n, &at);
        if (r < 0)
                return r;
        at = put(at, method);
        *at++ = ' ';
        at = put(at, target);
        put(at, STR(tail));
        buf_commit(out, n);
        return 0;
}

int http1_write_status_line(struct buf *out, unsigned status, struct str reason)
{
        static const char head[] = "HTTP/1.1 ";
        uint8_t *at;
        size_t n;
        int r;

        if (status < 100 || status > 999 || !http1_is_value(reason))
                return -EINVAL;
        if (reason.n == 0)
                reason = str_of(http1_reason(status));
        n = sizeof(head) - 1 + 4 + reason.n + 2;
        r = buf_reserve(out, n, &at);
        if (r < 0)
                return r;
        at = put(at, STR(head));
        *at++ = (uint8_t)('0' + status / 100);
        *at++ = (uint8_t)('0' + status / 10 % 10);
        *at++ = (uint8_t)('0' + status % 10);
        *at++ = ' ';
        at = put(at, reason);
        put(at, STR("\r\n"));
        buf_commit(out, n);
        return 0;
}

int http1_write_header(struct buf *out, struct str name, struct str value)
{
        size_t n = name.n + 2 + value.n + 2;
        uint8_t *at;
        int r;

        if (name.n == 0 || !http1_all(name, HTTP1_CHAR_TOKEN) || !http1_is_value(value))
                return -EINVAL;
        r = buf_reserve(out, n, &at);
        if (r < 0)
                return r;
        at = put(at, name);
        at = put(at, STR(": "));
        at = put(at, value);
        put(at, STR("\r\n"));
        buf_commit(out, n);
        return 0;
}

PRINTF(3, 0)
static int write_headerf(struct buf *out, const char *name, const char *fmt, va_list ap)
{
        size_t before = out->len, at;
        int r;

        r = http1_write_header(out, str_of(name), STR(""));
        if (r < 0)
                return r;
        out->len -= 2; /* the line goes on */
        at = out->len - before;
        r = buf_vaddf(out, fmt, ap);
        if (r < 0)
                return r;
        if (!http1_is_value((struct str){(const char *)buf_at(out) + before + at, out->len - before - at}))
                return -EINVAL;
        return buf_add(out, "\r\n", 2);
}

int http1_write_headerf(struct buf *out, const char *name, const char *fmt, ...)
{
        size_t before = out->len;
        va_list ap;
        int r;

        va_start(ap, fmt);
        r = write_headerf(out, name, fmt, ap);
        va_end(ap);
        if (r < 0)
                out->len = before; /* nothing of a header that failed stays */
        return r;
}

int http1_write_end(struct buf *out)
{
        return buf_add(out, "\r\n", 2);
}

size_t http1_chunk_head(char out[HTTP1_CHUNK_HEAD_MAX], uint64_t size)
{
        size_t digits = 1, n;

        for (uint64_t rest = size >> 4; rest; rest >>= 4)
                digits++;
        n = digits;
        for (; digits; size >>= 4)
                out[--digits] = "0123456789abcdef"[size & 15];
        out[n++] = '\r';
        out[n++] = '\n';
        return n;
}

const char *http1_reason(unsigned status)
{
        switch (status) {
        case 100: return "Continue";
        case 101: return "Switching Protocols";
        case 200: return "OK";
        case 201: return "Created";
        case 202: return "Accepted";
        case 204: return "No Content";
        case 206: return "Partial Content";
        case 301: return "Moved Permanently";
        case 302: return "Found";
        case 303: return "See Other";
        case 304: return "Not Modified";
        case 307: return "Temporary Redirect";
        case 308: return "Permanent Redirect";
        case 400: return "Bad Request";
        case 401: return "Unauthorized";
        case 402: return "Payment Required";
        case 403: return "Forbidden";
        case 404: return "Not Found";
        case 405: return "Method Not Allowed";
        case 406: return "Not Acceptable";
        case 408: return "Request Timeout";
        case 409: return "Conflict";
        case 410: return "Gone";
        case 411: return "Length Required";
        case 412: return "Precondition Failed";
        case 413: return "Content Too Large";
        case 414: return "URI Too Long";
        case 415: return "Unsupported Media Type";
        case 416: return "Range Not Satisfiable";
        case 417: return "Expectation Failed";
        case 421: return "Misdirected Request";
        case 422: return "Unprocessable Content";
        case 425: return "Too Early";
        case 426: return "Upgrade Required";
        case 428: return "Precondition Required";
        case 429: return "Too Many Requests";
        case 431: return "Request Header Fields Too Large";
        case 499: return "Client Closed Request";
        case 500: return "Internal Server Error";
        case 501: return "Not Implemented";
        case 502: return "Bad Gateway";
        case 503: return "Service Unavailable";
        case 504: return "Gateway Timeout";
        case 505: return "HTTP Version Not Supported";
        case 507: return "Insufficient Storage";
        default: return "";
        }
}
