/* origin.h - which server a URL names: "http://host:port" or "https://host:port". */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct err;

struct http_origin {
        bool is_tls; /* https:// */
        char *host;  /* owned: host and port as the URL has them, for the Host header */
        char *name;  /* owned: the host alone, without brackets */
        uint16_t port;
};

/* What follows host and port is not looked at.  ERR_INVALID. */
int http_origin_parse(const char *url, struct http_origin *ret, struct err *err);
void http_origin_done(struct http_origin *o);
