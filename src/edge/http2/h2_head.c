#include "edge/http2/h2_head.h"

#include <errno.h>

#include "wire/base64.h"
#include "wire/http1.h"

#define KEPT_MAX (4u << 10)                     /* memory that is not given back between requests */
#define COUNT_MAX (HTTP1_HEADERS_MAX - 5)       /* so that the fields the edge adds have room */
#define BYTES_MAX (HTTP1_HEAD_MAX - (1u << 10)) /* likewise */
#define KEY_BYTES 16u                           /* RFC 6455, 4.1 */

static const char *const pseudo_names[H2_PSEUDO_COUNT] = {
        [H2_METHOD] = ":method", [H2_SCHEME] = ":scheme",     [H2_AUTHORITY] = ":authority",
        [H2_PATH] = ":path",     [H2_PROTOCOL] = ":protocol",
};

void h2_head_init(struct h2_head *h)
{
        *h = (struct h2_head){0};
        buf_init(&h->pseudo, BYTES_MAX);
        buf_init(&h->lines, HTTP1_HEAD_MAX);
        buf_init(&h->cookie, HTTP1_HEAD_MAX);
        buf_init(&h->host, BYTES_MAX);
}

void h2_head_done(struct h2_head *h)
{
        buf_done(&h->pseudo);
        buf_done(&h->lines);
        buf_done(&h->cookie);
        buf_done(&h->host);
}

static void h2_head_empty_buf(struct buf *b)
{
        if (b->cap > KEPT_MAX)
                buf_done(b);
        else
                buf_reset(b);
}

void h2_head_reset(struct h2_head *h)
{
        h2_head_empty_buf(&h->pseudo);
        h2_head_empty_buf(&h->lines);
        h2_head_empty_buf(&h->cookie);
        h2_head_empty_buf(&h->host);
        memset(h->at, 0, sizeof(h->at));
        h->count = h->bytes = 0;
        h->has_length = false;
        h->refused_with = 0;
        h->why = NULL;
}

/* The client is told the first fault. */
static int h2_head_refuse(struct h2_head *h, unsigned status, const char *why)
{
        if (!h->refused_with) {
                h->refused_with = status;
                h->why = why;
        }
        return 0;
}

static struct str h2_head_text(const struct buf *b)
{
        return (struct str){(const char *)buf_at(b), b->len};
}

static struct str h2_head_pseudo(const struct h2_head *h, enum h2_pseudo which)
{
        if (h->at[which].n == 0)
                return STR("");
        return (struct str){(const char *)buf_at(&h->pseudo) + h->at[which].at, h->at[which].n};
}

/* ---- collecting ---- */

static int h2_head_add_pseudo(struct h2_head *h, struct str name, struct str value)
{
        unsigned which = 0;
        int r;

        while (which < H2_PSEUDO_COUNT && !str_is(name, pseudo_names[which]))
                which++;
        if (which == H2_PSEUDO_COUNT || h->at[which].is_there || h->lines.len)
                return h2_head_refuse(h, 400, "malformed request");
        h->at[which].at = h->pseudo.len;
        h->at[which].n = value.n;
        h->at[which].is_there = true;
        r = buf_add(&h->pseudo, value.p, value.n);
        return r == -E2BIG ? h2_head_refuse(h, 431, "head too big") : r;
}

/* RFC 9113, 8.2.2. */
static bool is_connection_header(struct str name, struct str value)
{
        static const char *const names[] = {"connection", "keep-alive", "proxy-connection", "transfer-encoding",
                                            "upgrade"};

        for (size_t i = 0; i < ARRAY_LEN(names); i++)
                if (str_iis(name, names[i]))
                        return true;
        return str_iis(name, "te") && !str_iis(value, "trailers");
}

static int h2_head_add_line(struct buf *to, struct str name, struct str value, struct h2_head *h)
{
        int r = http1_write_header(to, name, value);

        if (r == -EINVAL)
                return h2_head_refuse(h, 400, "malformed header");
        return r == -E2BIG ? h2_head_refuse(h, 431, "head too big") : r;
}

static int h2_head_add_cookie(struct h2_head *h, struct str value)
{
        int r = h->cookie.len ? buf_addc(&h->cookie, "; ") : 0;

        if (r == 0)
                r = buf_add(&h->cookie, value.p, value.n);
        return r == -E2BIG ? h2_head_refuse(h, 431, "head too big") : r;
}

static int h2_head_add_host(struct h2_head *h, struct str value)
{
        int r;

        if (h->host.len || value.n == 0)
                return h2_head_refuse(h, 400, "repeated or empty Host");
        r = buf_add(&h->host, value.p, value.n);
        return r == -E2BIG ? h2_head_refuse(h, 431, "head too big") : r;
}

int h2_head_add(struct h2_head *h, struct str name, struct str value)
{
        h->count++;
        h->bytes += name.n + value.n + 4;
        if (h->bytes > BYTES_MAX)
                return h2_head_refuse(h, str_is(name, ":path") ? 414 : 431, "head too big");
        if (h->count > COUNT_MAX)
                return h2_head_refuse(h, 431, "too many headers");
        if (h->refused_with)
                return 0;
        if (name.n && name.p[0] == ':')
                return h2_head_add_pseudo(h, name, value);
        if (is_connection_header(name, value))
                return h2_head_refuse(h, 400, "connection-specific header");
        if (str_iis(name, "cookie"))
                return h2_head_add_cookie(h, value);
        if (str_iis(name, "host"))
                return h2_head_add_host(h, value);
        if (str_iis(name, "content-length"))
                h->has_length = true;
        if (str_iis(name, "sec-websocket-key") && h->at[H2_PROTOCOL].is_there)
                return 0; /* belongs to the HTTP/1.1 handshake, which the edge makes itself */
        return h2_head_add_line(&h->lines, name, value, h);
}

/* ---- writing ---- */

bool h2_head_is_connect(const struct h2_head *h)
{
        return h->at[H2_PROTOCOL].is_there;
}

static int h2_head_check(struct h2_head *h, struct str *ret_host)
{
        struct str scheme = h2_head_pseudo(h, H2_SCHEME), authority = h2_head_pseudo(h, H2_AUTHORITY),
                   host = h2_head_text(&h->host);
        bool is_connect = str_is(h2_head_pseudo(h, H2_METHOD), "CONNECT");

        if (is_connect != h2_head_is_connect(h))
                return h2_head_refuse(h, is_connect ? 501 : 400,
                                      is_connect ? "unsupported method" : "malformed request");
        if (is_connect && !str_is(h2_head_pseudo(h, H2_PROTOCOL), "websocket"))
                return h2_head_refuse(h, 501, "unsupported protocol");
        if (is_connect && h->has_length)
                return h2_head_refuse(h, 400, "Content-Length in a CONNECT request");
        if (!str_iis(scheme, "https") && !str_iis(scheme, "http"))
                return h2_head_refuse(h, 400, "unsupported scheme");
        if (!h->at[H2_PATH].is_there || !h->at[H2_METHOD].is_there)
                return h2_head_refuse(h, 400, "malformed request");
        if (authority.n && host.n && !str_ieq(authority, host))
                return h2_head_refuse(h, 400, "Host differs from :authority");
        *ret_host = authority.n ? authority : host;
        return 0;
}

static int h2_head_write_handshake(struct buf *out)
{
        char key[BASE64_LEN(KEY_BYTES)];
        unsigned char nonce[KEY_BYTES];
        int r;

        random_bytes(nonce, sizeof(nonce));
        r = http1_write_header(out, STR("connection"), STR("Upgrade"));
        if (r == 0)
                r = http1_write_header(out, STR("upgrade"), STR("websocket"));
        if (r == 0)
                r = http1_write_header(out, STR("sec-websocket-key"),
                                       (struct str){key, base64_encode(nonce, sizeof(nonce), true, key)});
        return r;
}

static int h2_head_write_fields(struct h2_head *h, bool has_body, struct str host, struct buf *out)
{
        bool is_connect = h2_head_is_connect(h);
        int r;

        r = http1_write_request_line(out, is_connect ? STR("GET") : h2_head_pseudo(h, H2_METHOD),
                                     h2_head_pseudo(h, H2_PATH));
        if (r == 0 && host.n)
                r = http1_write_header(out, STR("host"), host);
        if (r == 0)
                r = buf_add(out, buf_at(&h->lines), h->lines.len);
        if (r == 0 && h->cookie.len)
                r = http1_write_header(out, STR("cookie"), h2_head_text(&h->cookie));
        if (r == 0 && is_connect)
                r = h2_head_write_handshake(out);
        else if (r == 0 && has_body && !h->has_length)
                r = http1_write_header(out, STR("transfer-encoding"), STR("chunked"));
        return r < 0 ? r : http1_write_end(out);
}

int h2_head_write(struct h2_head *h, bool has_body, struct buf *out)
{
        struct str host = {0};
        int r;

        if (!h->refused_with)
                (void)h2_head_check(h, &host);
        if (h->refused_with)
                return -EINVAL;
        r = h2_head_write_fields(h, has_body, host, out);
        if (r == -EINVAL)
                (void)h2_head_refuse(h, 400, "malformed request");
        else if (r == -E2BIG)
                (void)h2_head_refuse(h, 431, "head too big");
        return r == -E2BIG ? -EINVAL : r;
}
