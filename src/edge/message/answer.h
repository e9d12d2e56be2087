/* answer.h - answers of the edge itself: errors of routing and of sandboxes, as text, JSON or a page for a browser. */
#pragma once
#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"
#include "wire/http1.h"

enum answer_kind {
        ANSWER_TEXT,      /* status and message as they are: routing errors */
        ANSWER_API,       /* {"code","message"}: malformed requests, API not there */
        ANSWER_AGENT,     /* the same in the form of the agent API */
        ANSWER_RESERVED,  /* a path of envd's that only the control plane may call */
        ANSWER_NOT_FOUND, /* no such sandbox */
        ANSWER_PAUSED,    /* the sandbox is paused, and requests do not resume it; to programs the same as NOT_FOUND */
        ANSWER_RESUME_FAILED, /* ... requests resume it, but that failed; to programs the same as NOT_FOUND */
        ANSWER_PORT_CLOSED,   /* the sandbox runs, but nothing answers on that port */
        ANSWER_TOKEN_MISSING,
        ANSWER_TOKEN_WRONG,
        ANSWER_TOO_MANY, /* too many requests into this sandbox at a time */
        ANSWER_MAY_NOT_RESUME,
        ANSWER_RESUME_LIMIT, /* as many sandboxes as may run do; message: which limit (may be NULL) */
        ANSWER_DISK_FULL,    /* to resume the sandbox needs room on the server's disk */
        ANSWER_BUSY,         /* the sandbox is being paused or resumed, and that did not end in time */
        ANSWER_UNAVAILABLE,  /* control or the engine is not there just now */
        ANSWER_KIND_COUNT,
};

struct answer {
        enum answer_kind kind;
        unsigned status;     /* ANSWER_TEXT, ANSWER_API, ANSWER_AGENT; the others have their own */
        const char *message; /* those, ANSWER_RESUME_LIMIT; ANSWER_RESERVED: the path */
        struct str sandbox_id;
        unsigned port;
        unsigned limit;  /* ANSWER_TOO_MANY */
        bool is_html;    /* when the kind has a page */
        bool to_head;    /* no body */
        bool says_close; /* Connection: close */
};

/* Was the request sent by a browser that shows a page (true), or by a program (false)? */
bool answer_wants_html(const struct http1_head *h);
unsigned answer_status(const struct answer *a);
#define ANSWER_BODY_MAX (16u << 10)
/* Only the body, and its content type (static). */
int answer_body(const struct answer *a, struct buf *out, const char **ret_type);
/* The whole answer, head and body.  0, -ENOMEM, -E2BIG. */
int answer_write(const struct answer *a, struct buf *out);
