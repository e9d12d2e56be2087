#include "http/origin.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"

/* Host and port apart.  A colon inside brackets belongs to an IPv6 address. */
static struct str split_port(struct str *host)
{
        for (size_t i = host->n; i > 0 && host->p[i - 1] != ']'; i--) {
                if (host->p[i - 1] == ':') {
                        struct str port = {host->p + i, host->n - i};

                        host->n = i - 1;
                        return port;
                }
        }
        return (struct str){0};
}

int http_origin_parse(const char *url, struct http_origin *ret, struct err *err)
{
        bool is_tls = str_starts(str_of(url), "https://");
        const char *at = url + strlen(is_tls ? "https://" : "http://");
        struct str authority, name, port;
        struct http_origin o = {.is_tls = is_tls};
        uint32_t number = is_tls ? 443 : 80;

        if (!is_tls && !str_starts(str_of(url), "http://"))
                return err_set(err, ERR_INVALID, "'%s' is neither http:// nor https://", url);
        authority = name = (struct str){at, strcspn(at, "/")};
        port = split_port(&name);
        if (name.n == 0 || (port.p && parse_u32(port, 1, UINT16_MAX, &number) < 0))
                return err_set(err, ERR_INVALID, "'%s' is not %s://host:port", url, is_tls ? "https" : "http");
        if (name.n > 2 && name.p[0] == '[' && name.p[name.n - 1] == ']')
                name = (struct str){name.p + 1, name.n - 2};
        o.port = (uint16_t)number;
        o.host = str_dup(authority);
        o.name = str_dup(name);
        if (!o.host || !o.name) {
                http_origin_done(&o);
                return err_set(err, ERR_LIMIT, "out of memory");
        }
        *ret = o;
        return 0;
}

void http_origin_done(struct http_origin *o)
{
        free(o->host);
        free(o->name);
        *o = (struct http_origin){0};
}
