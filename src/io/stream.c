/* With TLS, reading may have to write and the other way round (handshake, key update); what each direction waits for is
 * in `read_waits` and `write_waits`, and the socket is watched for those instead of what the owner named. */
#include "io/stream.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <sys/socket.h>

#include "io/tls.h"
#include "io/tls_impl.h"

#define RECORD_BYTES (16u << 10) /* the most one TLS record holds */

struct stream_tls {
        SSL *ssl;
        struct tls_context *context;      /* shared: it may be replaced while the stream is open */
        uint32_t read_waits, write_waits; /* EPOLLIN or EPOLLOUT */
        bool is_dry;                      /* the last read found nothing complete: only the socket can help */
        bool is_dead;                     /* a fatal error: OpenSSL must not be asked again */
};

/* ---- waiting ---- */

static uint32_t socket_want(const struct stream *s)
{
        uint32_t want = s->want & ~(uint32_t)(EPOLLIN | EPOLLOUT);

        if (!s->tls)
                return s->want;
        if (s->want & EPOLLIN)
                want |= s->tls->read_waits;
        if (s->want & EPOLLOUT)
                want |= s->tls->write_waits;
        return want;
}

static bool has_bytes_inside(const struct stream *s)
{
        return s->tls && !s->tls->is_dry && !s->tls->is_dead && SSL_has_pending(s->tls->ssl);
}

static void watch(struct stream *s)
{
        loop_want(&s->io, socket_want(s));
        if ((s->want & EPOLLIN) && has_bytes_inside(s))
                loop_post(s->io.loop, &s->again);
        else
                loop_unpost(&s->again);
}

void stream_want(struct stream *s, uint32_t want)
{
        if (!s->io.loop)
                return;
        s->want = want;
        watch(s);
}

static void on_again(struct task *t)
{
        struct stream *s = CONTAINER_OF(t, struct stream, again);

        loop_post(s->io.loop, t); /* until a read finds nothing, as the socket itself would */
        s->on(s, EPOLLIN);
}

static void on_socket(struct io *io, uint32_t events)
{
        struct stream *s = CONTAINER_OF(io, struct stream, io);
        uint32_t out = events & ~(uint32_t)(EPOLLIN | EPOLLOUT);

        if (!s->tls) {
                s->on(s, events);
                return;
        }
        if (events & EPOLLIN)
                s->tls->is_dry = false;
        if (events & s->tls->read_waits)
                out |= s->want & EPOLLIN;
        if (events & s->tls->write_waits)
                out |= s->want & EPOLLOUT;
        if (out)
                s->on(s, out);
}

/* ---- making and ending ---- */

/* What the client's side asks for, and what the certificate has to say.  An address is no name to send (RFC 6066, 3). */
static int tls_expect(SSL *ssl, const char *name)
{
        uint8_t address[sizeof(struct in6_addr)];

        if (inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1)
                return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1 ? 0 : -ENOMEM;
        SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
        return SSL_set_tlsext_host_name(ssl, name) == 1 && SSL_set1_host(ssl, name) == 1 ? 0 : -ENOMEM;
}

/* A client may live in a library: its writes raise no SIGPIPE.  (Those of a server do, see loop_create().) */
static int quiet_write(BIO *bio, const char *p, int n)
{
        int fd = -1;
        ssize_t done;

        (void)BIO_get_fd(bio, &fd);
        done = send(fd, p, (size_t)n, MSG_NOSIGNAL);
        BIO_clear_retry_flags(bio);
        if (done < 0 && BIO_sock_should_retry(-1))
                BIO_set_retry_write(bio);
        return (int)done;
}

/* What a client writes to.  OpenSSL's own socket is what it is made of.  NULL: no memory. */
BIO_METHOD *stream_quiet_socket(void)
{
        const BIO_METHOD *usual = BIO_s_socket();
        BIO_METHOD *m = BIO_meth_new(BIO_TYPE_SOCKET, "socket without SIGPIPE");

        if (m && BIO_meth_set_write(m, quiet_write) && BIO_meth_set_read(m, BIO_meth_get_read(usual)) &&
            BIO_meth_set_puts(m, BIO_meth_get_puts(usual)) && BIO_meth_set_ctrl(m, BIO_meth_get_ctrl(usual)) &&
            BIO_meth_set_create(m, BIO_meth_get_create(usual)) && BIO_meth_set_destroy(m, BIO_meth_get_destroy(usual)))
                return m;
        BIO_meth_free(m);
        return NULL;
}

static int tls_set_socket(SSL *ssl, struct tls_context *tls, int fd)
{
        BIO *bio;

        if (!tls->quiet_socket)
                return SSL_set_fd(ssl, fd) == 1 ? 0 : -ENOMEM;
        bio = BIO_new(tls->quiet_socket);
        if (!bio)
                return -ENOMEM;
        (void)BIO_set_fd(bio, fd, BIO_NOCLOSE);
        SSL_set_bio(ssl, bio, bio);
        return 0;
}

/* peer_name NULL: the server's side. */
static int tls_start(struct stream *s, struct tls_context *tls, const char *peer_name)
{
        s->tls = calloc(1, sizeof(*s->tls));
        if (!s->tls)
                return -ENOMEM;
        *s->tls = (struct stream_tls){.context = tls_context_ref(tls), .read_waits = EPOLLIN, .write_waits = EPOLLOUT};
        ERR_clear_error();
        s->tls->ssl = SSL_new(tls->ctx);
        if (!s->tls->ssl || tls_set_socket(s->tls->ssl, tls, s->io.fd) < 0)
                return -ENOMEM;
        if (!peer_name) {
                SSL_set_accept_state(s->tls->ssl);
                return 0;
        }
        SSL_set_connect_state(s->tls->ssl);
        return tls_expect(s->tls->ssl, peer_name);
}

static int stream_start(struct stream *s, struct loop *l, int fd, struct tls_context *tls, const char *peer_name,
                        void (*on)(struct stream *, uint32_t))
{
        int r = 0;

        *s = (struct stream){.io = {.fd = fd, .on = on_socket}, .on = on, .again = {.run = on_again}};
        if (tls)
                r = tls_start(s, tls, peer_name);
        if (r == 0)
                r = loop_add(l, &s->io, 0);
        if (r < 0)
                stream_done(s);
        return r;
}

int stream_init(struct stream *s, struct loop *l, int fd, struct tls_context *tls,
                void (*on)(struct stream *, uint32_t))
{
        return stream_start(s, l, fd, tls, NULL, on);
}

int stream_init_client(struct stream *s, struct loop *l, int fd, struct tls_context *tls, const char *name,
                       void (*on)(struct stream *, uint32_t))
{
        return stream_start(s, l, fd, tls, name, on);
}

void stream_done(struct stream *s)
{
        loop_unpost(&s->again);
        loop_del(&s->io);
        if (s->tls) {
                SSL_free(s->tls->ssl);
                (void)tls_context_free(s->tls->context);
                free(s->tls);
                s->tls = NULL;
        }
        close_fd(&s->io.fd);
        s->want = 0;
}

void stream_shutdown_write(struct stream *s)
{
        if (s->tls && !s->tls->is_dead && SSL_is_init_finished(s->tls->ssl)) {
                ERR_clear_error();
                (void)SSL_shutdown(s->tls->ssl);
        }
        (void)shutdown(s->io.fd, SHUT_WR);
}

void stream_abort(struct stream *s)
{
        const struct linger now = {.l_onoff = 1};

        (void)setsockopt(s->io.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)); /* Unix sockets know no reset */
}

bool stream_is_tls(const struct stream *s)
{
        return s->tls != NULL;
}

const char *stream_distrust(const struct stream *s)
{
        long result = s->tls ? SSL_get_verify_result(s->tls->ssl) : X509_V_OK;

        return result == X509_V_OK ? NULL : X509_verify_cert_error_string(result);
}

struct str stream_alpn(const struct stream *s)
{
        const unsigned char *name = NULL;
        unsigned n = 0;

        if (s->tls)
                SSL_get0_alpn_selected(s->tls->ssl, &name, &n);
        return (struct str){(const char *)name, n};
}

int stream_move(struct stream *s, struct stream *from, void (*on)(struct stream *, uint32_t))
{
        struct loop *l = from->io.loop;
        int r;

        loop_unpost(&from->again);
        loop_del(&from->io);
        *s = (struct stream){.io = {.fd = TAKE_FD(from->io.fd), .on = on_socket},
                             .on = on,
                             .tls = TAKE_PTR(from->tls),
                             .again = {.run = on_again}};
        from->want = 0;
        r = loop_add(l, &s->io, 0);
        if (r < 0)
                stream_done(s);
        return r;
}

/* ---- reading and writing ---- */

/* What a failed SSL call means; *waits is set for its direction. */
static ssize_t tls_result(struct stream_tls *t, uint32_t *waits)
{
        int saved = errno;

        switch (SSL_get_error(t->ssl, 0)) {
        case SSL_ERROR_WANT_READ: *waits = EPOLLIN; return -EAGAIN;
        case SSL_ERROR_WANT_WRITE: *waits = EPOLLOUT; return -EAGAIN;
        case SSL_ERROR_ZERO_RETURN: return 0;
        case SSL_ERROR_SYSCALL: t->is_dead = true; return saved ? -saved : -ECONNRESET;
        default: {
                int reason = ERR_GET_REASON(ERR_peek_error());

                t->is_dead = true;
                ERR_clear_error();
                return reason == SSL_R_UNEXPECTED_EOF_WHILE_READING ? -ECONNRESET : -EPROTO;
        }
        }
}

static ssize_t tls_read(struct stream_tls *t, void *p, size_t n)
{
        size_t got = 0;
        ssize_t r;

        if (t->is_dead)
                return -EPIPE;
        ERR_clear_error();
        errno = 0;
        t->read_waits = EPOLLIN;
        if (SSL_read_ex(t->ssl, p, n, &got) == 1) {
                t->is_dry = false;
                return (ssize_t)got;
        }
        r = tls_result(t, &t->read_waits);
        t->is_dry = r == -EAGAIN;
        return r;
}

ssize_t stream_read(struct stream *s, void *p, size_t n)
{
        ssize_t r;

        if (s->tls) {
                r = tls_read(s->tls, p, n);
                watch(s);
                return r;
        }
        do {
                r = recv(s->io.fd, p, n, MSG_DONTWAIT);
        } while (r < 0 && errno == EINTR);
        return r < 0 ? -errno : r;
}

/* One record after the other until the socket is full. */
static ssize_t tls_write(struct stream_tls *t, const uint8_t *p, size_t n)
{
        size_t done = 0;

        if (t->is_dead)
                return -EPIPE;
        if (SSL_in_init(t->ssl))
                t->is_dry = false; /* the handshake reads, and may take in more than its own bytes */
        ERR_clear_error();
        t->write_waits = EPOLLOUT;
        while (done < n) {
                size_t taken = 0;
                ssize_t r;

                errno = 0;
                if (SSL_write_ex(t->ssl, p + done, n - done < RECORD_BYTES ? n - done : RECORD_BYTES, &taken) == 1) {
                        done += taken;
                        continue;
                }
                r = tls_result(t, &t->write_waits);
                if (r == 0) /* the peer closed; for a writer that is an error */
                        r = -EPIPE;
                return done ? (ssize_t)done : r;
        }
        return (ssize_t)done;
}

ssize_t stream_write(struct stream *s, const void *p, size_t n)
{
        ssize_t r;

        if (s->tls) {
                r = tls_write(s->tls, p, n);
                watch(s);
                return r;
        }
        do {
                r = send(s->io.fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
        } while (r < 0 && errno == EINTR);
        return r < 0 ? -errno : r;
}

/* Small pieces share a record; what fills one by itself is not copied. */
static ssize_t tls_writev(struct stream_tls *t, const struct iovec *iov, int n)
{
        uint8_t record[RECORD_BYTES];
        ssize_t total = 0, r;
        size_t at = 0; /* in iov[0] */

        while (n > 0) {
                size_t have = 0, whole = iov->iov_len - at;

                if (whole >= sizeof(record)) {
                        r = tls_write(t, (const uint8_t *)iov->iov_base + at, whole);
                        have = whole;
                        at = 0;
                        iov++, n--;
                } else {
                        while (n > 0 && have < sizeof(record)) {
                                size_t left = iov->iov_len - at, room = sizeof(record) - have;
                                size_t piece = left < room ? left : room;

                                if (piece)
                                        memcpy(record + have, (const uint8_t *)iov->iov_base + at, piece);
                                have += piece;
                                at += piece;
                                if (at == iov->iov_len)
                                        at = 0, iov++, n--;
                        }
                        r = tls_write(t, record, have);
                }
                if (r < 0)
                        return total ? total : r;
                total += r;
                if ((size_t)r < have)
                        break;
        }
        return total;
}

ssize_t stream_writev(struct stream *s, const struct iovec *iov, int n)
{
        struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (size_t)n};
        ssize_t r;

        if (s->tls) {
                r = tls_writev(s->tls, iov, n);
                watch(s);
                return r;
        }
        do {
                r = sendmsg(s->io.fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
        } while (r < 0 && errno == EINTR);
        return r < 0 ? -errno : r;
}
