/* http.h - a blocking HTTP client on one kept-alive connection, so that what is measured is the server.
 * Any failure ends the program with a message. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

struct http {
        uint16_t port;
        int fd;        /* -1: connects with the next request */
        struct buf in; /* what was read and not yet understood */
        struct buf out;
        struct buf body; /* of the last answer, unless it was only counted */
        unsigned status; /* of the last answer */
        uint64_t body_bytes;
        bool is_counting;                                   /* do not keep bodies */
        void (*on_piece)(struct http *h, struct str piece); /* of bodies, if not NULL */
        const char *mark;                                   /* first time this text has arrived in a body, ... */
        double marked_us;                                   /* ... here; 0: not seen */
};

void http_open(struct http *h, uint16_t port);
void http_close(struct http *h);
/* One exchange.  `headers` is complete lines ("A: b\r\n") or "". */
void http_exchange(struct http *h, const char *method, const char *path, const char *headers, const void *body,
                   size_t len);
/* The same with a body of `size` times the letter x, made as it is sent. */
void http_upload(struct http *h, const char *method, const char *path, const char *headers, uint64_t size);
