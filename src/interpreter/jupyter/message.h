/* message.h - messages of the Jupyter protocol: frames, signature, header, parent, content.  No I/O.
 *
 * On the wire a message is [identities...] "<IDS|MSG>" signature header parent_header metadata content [buffers...].
 * The signature is HMAC-SHA-256 over the four JSON frames, in hexadecimal.  A message with a wrong signature is refused. */
#pragma once
#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"

#define JUPYTER_FRAMES_MAX 32 /* frames that are looked at; buffers behind them are ignored */
#define JUPYTER_FRAMES_SENT 6
#define JUPYTER_PROTOCOL "5.3"

struct jupyter_message {      /* everything points into the frames */
        struct str type;      /* "stream" */
        struct str parent_id; /* msg_id of the request that this belongs to; empty: none */
        struct str date;      /* when it was made, as the kernel wrote it; may be empty */
        struct str content;   /* a JSON object, checked */
};
/* -EBADMSG: not a Jupyter message, or malformed.  -EACCES: the signature is wrong. */
int jupyter_decode(const struct str *frames, size_t count, struct str key, struct jupyter_message *ret);

struct jupyter_request {
        const char *type, *id, *session; /* plain ASCII */
        struct str content;              /* a JSON object */
};
struct jupyter_frames { /* what jupyter_encode() made; released by jupyter_frames_done() */
        struct buf mem;
        struct str at[JUPYTER_FRAMES_SENT]; /* into mem, the last into the request's content */
};
/* -ENOMEM, -E2BIG. */
int jupyter_encode(const struct jupyter_request *rq, struct str key, struct jupyter_frames *ret);
void jupyter_frames_done(struct jupyter_frames *f);

/* The content of an execute_request.  -ENOMEM, -E2BIG. */
int jupyter_execute_content(struct str code, bool is_silent, struct buf *out);
