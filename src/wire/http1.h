/* http1.h - HTTP/1.1 messages, strict, without I/O.  RFC 9112; what is ambiguous is refused.
 *
 * Refused: bare CR or LF, obs-fold, space before the colon, control characters, empty or illegal header names, repeated
 * or conflicting Content-Length, Content-Length together with Transfer-Encoding, any transfer coding but a single
 * `chunked`, chunked in an HTTP/1.0 request, HTTP versions other than 1.0 and 1.1, missing or repeated Host in a 1.1
 * request, chunk extensions beyond the limit.
 *
 * A head is parsed in place: every struct str in it points into the caller's bytes, which must stay put for as long as
 * the head is used.  Feeding again after HTTP1_MORE (the same bytes, possibly elsewhere, with more behind) resumes where
 * it stopped looking; a fault is told as soon as its line is complete.
 *
 * Also refused: a Host that is no host, or that differs from the authority of an absolute-form target. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

#define HTTP1_HEADERS_MAX 100
#define HTTP1_HEAD_MAX (32u << 10)   /* bytes of one head; more is HTTP1_TOO_BIG (431) */
#define HTTP1_TRAILER_MAX (8u << 10) /* bytes of trailers after chunks */
#define HTTP1_CHUNK_LINE_MAX 256u    /* size line with extensions */

enum http1_step {
        HTTP1_MORE,        /* give more bytes */
        HTTP1_DONE,        /* complete */
        HTTP1_DATA,        /* (bodies) a piece of payload is in *ret_data */
        HTTP1_BAD,         /* malformed: answer 400 and close */
        HTTP1_TOO_BIG,     /* over a limit: 431 and close */
        HTTP1_UNSUPPORTED, /* transfer coding we do not know (501) or version (505): see head->status_hint */
};

enum http1_framing {
        HTTP1_BODY_NONE,   /* no body at all */
        HTTP1_BODY_LENGTH, /* head->content_length bytes (may be 0) */
        HTTP1_BODY_CHUNKED,
        HTTP1_BODY_EOF, /* responses only: until the connection ends */
};

struct http1_header {
        struct str name, value; /* value without surrounding blanks */
};

struct http1_head {
        /* request */
        struct str method, target;
        /* response */
        unsigned status; /* 100..999; 0 in a request */
        struct str reason;
        /* both */
        unsigned minor; /* HTTP/1.minor */
        struct http1_header headers[HTTP1_HEADERS_MAX];
        size_t header_count;
        enum http1_framing framing;
        uint64_t content_length; /* with HTTP1_BODY_LENGTH */
        bool keep_alive;         /* version and Connection header say the connection may go on */
        bool expect_continue;    /* request has Expect: 100-continue */
        bool is_upgrade;         /* Connection: upgrade and an Upgrade header */
        unsigned status_hint;    /* after BAD/TOO_BIG/UNSUPPORTED: 400, 431, 414, 417, 501, 505 */
        const char *why;         /* after a refusal: short static text */
        size_t scanned;          /* ours: where looking for the end goes on; 0 at start */
        size_t line;             /* ours: where the line being looked at begins */
        uintptr_t base;          /* ours: address of the bytes at the last call */
        unsigned seen;           /* ours: which headers that matter for framing were there */
};

/* Start each message with a zeroed head, or at least with scanned = 0.  On HTTP1_DONE *ret_used is the head's length in
 * bytes; it is untouched otherwise. */
enum http1_step http1_parse_request(struct http1_head *h, const void *p, size_t n, size_t *ret_used);
/* `to_head`: it answers a HEAD request (no body whatever the headers say).  1xx, 204 and 304 have no body either. */
enum http1_step http1_parse_response(struct http1_head *h, const void *p, size_t n, bool to_head, size_t *ret_used);

/* First header of that name (any case), or NULL. */
const struct http1_header *http1_find(const struct http1_head *h, const char *name);
struct str http1_value(const struct http1_head *h, const char *name); /* empty when absent */
size_t http1_count(const struct http1_head *h, const char *name);
/* Is `token` in the comma list(s) of that header?  Any case. */
bool http1_has_token(const struct http1_head *h, const char *name, const char *token);
/* Hop-by-hop: Connection, Keep-Alive, Proxy-*, TE, Trailer, Transfer-Encoding, Upgrade, and those Connection names
 * (Host and Content-Length excepted: nobody may have them dropped). */
bool http1_is_hop_by_hop(const struct http1_head *h, struct str name);

/* Body decoder: feed it what follows the head. */
struct http1_body {
        enum http1_framing framing;
        uint64_t left;   /* of the length or the chunk */
        unsigned state;  /* ours */
        size_t line_len; /* ours: bytes seen of the current size line, or of all trailers */
        size_t ext_debt; /* ours: chunk extension bytes not yet outweighed by payload */
        uint64_t total;  /* payload bytes so far */
};
void http1_body_init(struct http1_body *b, const struct http1_head *h);
/* Looks at p[0..n).  *ret_used bytes are dealt with in every case; on HTTP1_DATA *ret_data is a slice of p (never
 * empty) and more may follow; on HTTP1_DONE the message is complete and bytes after *ret_used belong to the next one.
 * Trailers are checked and dropped.  HTTP1_BODY_EOF never says DONE: the end of the connection does. */
enum http1_step http1_body_feed(struct http1_body *b, const void *p, size_t n, size_t *ret_used, struct str *ret_data);
bool http1_body_is_done(const struct http1_body *b); /* true at once for NONE and for length 0 */

/* Writing.  0, -E2BIG, -ENOMEM (as buf_add); -EINVAL for a name or value that would break the head. */
int http1_write_request_line(struct buf *out, struct str method, struct str target);
int http1_write_status_line(struct buf *out, unsigned status, struct str reason /* empty: the usual words */);
int http1_write_header(struct buf *out, struct str name, struct str value);
int http1_write_headerf(struct buf *out, const char *name, const char *fmt, ...) PRINTF(3, 4);
int http1_write_end(struct buf *out); /* the blank line */
#define HTTP1_CHUNK_HEAD_MAX 20
/* "1a2b\r\n" into out; returns its length.  After the chunk's bytes "\r\n" follows; the last chunk is "0\r\n\r\n". */
size_t http1_chunk_head(char out[HTTP1_CHUNK_HEAD_MAX], uint64_t size);
const char *http1_reason(unsigned status); /* "Not Found"; "" for unknown numbers */
