/* flow.h - one message body on its way from one connection to another: decoded, framed anew, written.
 *
 * Bytes that the sink does not take wait in `out` (at most a block) or in a pipe (splice.h), and nothing more is taken from the
 * source until they are gone: that is the backpressure.  On the fast path one read becomes one writev and nothing is copied. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "edge/message/block.h"
#include "io/stream.h"
#include "wire/http1.h"

enum flow_step {
        FLOW_MORE, /* all bytes of the source are passed on; the message goes on */
        FLOW_FULL, /* the sink takes no more now */
        FLOW_DONE, /* the message is complete and written */
        FLOW_BAD,  /* the source breaks its framing; nothing was taken from it in this call */
        FLOW_DEAD, /* the sink is gone; when it took nothing in this call, nothing was taken from the source */
};

struct flow {
        struct http1_body body;   /* decodes the source */
        bool is_chunked;          /* the sink gets chunks; otherwise the bytes as they are */
        bool is_ended;            /* the message's last byte is written or in `out` */
        struct block out;         /* owned: bytes the sink did not take yet */
        struct splice_pipe *pipe; /* owned: such bytes of a body that is spliced; NULL: none */
        uint64_t sent_bytes;      /* handed to the sink's socket */
};

void flow_init(struct flow *f, const struct http1_head *head, bool is_chunked);
void flow_done(struct flow *f, struct block_pool *pool);

/* Pass on what is in src behind its first `*keep` bytes, after `prefix` (may be NULL; emptied).  Once body bytes are
 * taken the kept ones go as well, and *keep is 0. */
enum flow_step flow_pump(struct flow *f, struct block_pool *pool, struct block *src, size_t *keep, struct buf *prefix,
                         struct stream *sink);
/* Are there bytes that the sink did not take? */
static inline bool flow_waits(const struct flow *f)
{
        return f->out.len || f->pipe;
}
/* Write the bytes that wait: FLOW_FULL, FLOW_DEAD, or nothing waits any more (FLOW_DONE, FLOW_MORE). */
enum flow_step flow_flush(struct flow *f, struct block_pool *pool, struct stream *sink);
/* The source closed its connection, and by its framing that is the end of the message. */
enum flow_step flow_finish(struct flow *f, struct block_pool *pool, struct stream *sink);
/* Write bytes that are no part of a body, such as a head: FLOW_DONE, FLOW_FULL, FLOW_DEAD. */
enum flow_step flow_say(struct flow *f, struct block_pool *pool, struct buf *bytes, struct stream *sink);
