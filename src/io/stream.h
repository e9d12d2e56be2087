/* stream.h - a non-blocking byte stream on a connected socket, plain or TLS (either side).
 *
 * The owner says what it waits for with stream_want(); `on` is called when that is possible (or the peer failed).
 * In `on` the owner reads and writes until -EAGAIN or until it has enough.  TLS renegotiation needs and bytes already
 * decrypted are handled inside: after stream_want(s, EPOLLIN) `on` comes also for bytes that wait in the TLS layer. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/str.h"
#include "io/loop.h"

struct tls_context; /* tls.h */
struct stream_tls;  /* opaque, the TLS side */

struct stream {
        struct io io;
        void (*on)(struct stream *s, uint32_t events); /* EPOLLIN, EPOLLOUT, EPOLLERR|EPOLLHUP as they apply */
        struct stream_tls *tls;                        /* owned; NULL: plain */
        uint32_t want;
        struct task again; /* bytes wait in the TLS layer */
};

/* Take the fd (made non-blocking by the caller; closed by stream_done, also when this fails).  tls NULL: plain. */
int stream_init(struct stream *s, struct loop *l, int fd, struct tls_context *tls,
                void (*on)(struct stream *, uint32_t));
/* The same for the client's side: `tls` comes from tls_client_context_create(), and the peer must prove that it is `name`
 * (a host name or an IP address).  The handshake happens while reading and writing. */
int stream_init_client(struct stream *s, struct loop *l, int fd, struct tls_context *tls, const char *name,
                       void (*on)(struct stream *, uint32_t));
void stream_done(struct stream *s); /* closes at once, without ceremony (TLS: no close_notify: an abrupt end) */

void stream_want(struct stream *s, uint32_t want);

/* > 0 bytes; 0 the peer ended properly; -EAGAIN nothing now; other negative errno: the connection is dead. */
ssize_t stream_read(struct stream *s, void *p, size_t n);
/* >= 0 bytes taken (may be short); -EAGAIN; other negative errno.  After a short write or -EAGAIN the next write begins
 * with the bytes that were not taken, and offers no fewer of them: TLS may have encrypted them already. */
ssize_t stream_write(struct stream *s, const void *p, size_t n);
ssize_t stream_writev(struct stream *s, const struct iovec *iov, int n);
/* Say that no more bytes follow (FIN, TLS close_notify), best effort. */
void stream_shutdown_write(struct stream *s);
/* Make the coming stream_done() a reset (RST) so the peer cannot mistake it for a proper end. */
void stream_abort(struct stream *s);
bool stream_is_tls(const struct stream *s);
/* Why the peer's certificate was refused, as static text; NULL: it was not, or there is none yet. */
const char *stream_distrust(const struct stream *s);
/* The protocol TLS settled on (ALPN); empty: none, or not yet.  Valid as long as the stream. */
struct str stream_alpn(const struct stream *s);
/* Another owner takes it over; nothing is wanted of it at first.  *from is empty afterwards, as after stream_done().
 * 0, or negative errno: then it is closed. */
int stream_move(struct stream *s, struct stream *from, void (*on)(struct stream *, uint32_t));
