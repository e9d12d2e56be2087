/* answer.h - what the edge itself says: errors of routing and of sandboxes, as text, JSON or a page for a browser. */
#pragma once
#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"
#include "wire/http1.h"

enum answer_kind {
        ANSWER_TEXT,          /* status and message as they are: routing errors */
        ANSWER_API,           /* {"code","message"}: malformed requests, API not there */
        ANSWER_RESERVED,      /* a path of envd's that only the control plane may call */
        ANSWER_NOT_FOUND,     /* no such sandbox */
        ANSWER_PAUSED,        /* it is at rest, and a request does not wake it; to programs the same as NOT_FOUND */
        ANSWER_RESUME_FAILED, /* ... a request does, but it could not be done; likewise */
        ANSWER_PORT_CLOSED,   /* it runs, but nothing answers on that port */
        ANSWER_TOKEN_MISSING,
        ANSWER_TOKEN_WRONG,
        ANSWER_TOO_MANY, /* into this sandbox at a time */
        ANSWER_MAY_NOT_RESUME,
        ANSWER_RESUME_LIMIT, /* as many as may run do; message: which limit (NULL: just that) */
        ANSWER_DISK_FULL,    /* to wake it needs room on the server's disk */
        ANSWER_BUSY,         /* on its way to rest or back, and not there in time */
        ANSWER_UNAVAILABLE,  /* a part of ours is not there just now */
        ANSWER_KIND_COUNT,
};

struct answer {
        enum answer_kind kind;
        unsigned status;     /* ANSWER_TEXT, ANSWER_API; the others have their own */
        const char *message; /* ANSWER_TEXT, ANSWER_API, ANSWER_RESUME_LIMIT; ANSWER_RESERVED: the path */
        struct str sandbox_id;
        unsigned port;
        unsigned limit;  /* ANSWER_TOO_MANY */
        bool is_html;    /* when the kind has a page */
        bool to_head;    /* no body */
        bool says_close; /* Connection: close */
};

/* Is it a browser showing a page (true), or a program (false)? */
bool answer_wants_html(const struct http1_head *h);
unsigned answer_status(const struct answer *a);
#define ANSWER_BODY_MAX (16u << 10)
/* Only the body, and its content type (static). */
int answer_body(const struct answer *a, struct buf *out, const char **ret_type);
/* The whole answer, head and body.  0, -ENOMEM, -E2BIG. */
int answer_write(const struct answer *a, struct buf *out);
