#include "h2client.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

#include "base/auto.h"

#define WAIT_MS 5000

struct h2_heard *h2c_of(struct h2c *c, int32_t id)
{
        return &c->heard[(id - 1) / 2 % H2_STREAMS];
}

/* ---- what it hears ---- */

static void append(char **to, size_t have, const void *p, size_t n)
{
        char *more = realloc(*to, have + n + 1);

        if (!more)
                abort();
        memcpy(more + have, p, n);
        more[have + n] = 0;
        *to = more;
}

static void append_text(char **to, const void *p, size_t n)
{
        append(to, *to ? strlen(*to) : 0, p, n);
}

static int on_header(nghttp2_session *s, const nghttp2_frame *f, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
        struct h2_heard *st = h2c_of(arg, f->hd.stream_id);

        (void)s;
        (void)flags;
        append_text(&st->fields, name, name_len);
        append_text(&st->fields, ": ", 2);
        append_text(&st->fields, value, value_len);
        append_text(&st->fields, "\n", 1);
        if (name_len == 7 && memcmp(name, ":status", 7) == 0) {
                int status = value_len == 3 ? (value[0] - '0') * 100 + (value[1] - '0') * 10 + value[2] - '0' : 0;

                if (status < 200)
                        st->interims++;
                else
                        st->status = status;
        }
        return 0;
}

static int on_frame(nghttp2_session *s, const nghttp2_frame *f, void *arg)
{
        struct h2c *c = arg;

        (void)s;
        if (f->hd.stream_id && (f->hd.type == NGHTTP2_HEADERS || f->hd.type == NGHTTP2_DATA) &&
            (f->hd.flags & NGHTTP2_FLAG_END_STREAM))
                h2c_of(c, f->hd.stream_id)->is_ended = true;
        if (f->hd.type == NGHTTP2_GOAWAY) {
                c->goaways++;
                c->goaway_code = f->goaway.error_code;
                c->goaway_last = f->goaway.last_stream_id;
        }
        if (f->hd.type == NGHTTP2_SETTINGS && !(f->hd.flags & NGHTTP2_FLAG_ACK))
                c->has_settings = true;
        if (f->hd.type == NGHTTP2_PING && (f->hd.flags & NGHTTP2_FLAG_ACK))
                c->pings_acked++;
        return 0;
}

static int on_data(nghttp2_session *s, uint8_t flags, int32_t id, const uint8_t *p, size_t n, void *arg)
{
        struct h2c *c = arg;
        struct h2_heard *st = h2c_of(c, id);

        (void)s;
        (void)flags;
        if (c->keeps_bodies)
                append(&st->body, st->body_len, p, n);
        st->body_len += n;
        return 0;
}

static int on_close(nghttp2_session *s, int32_t id, uint32_t error, void *arg)
{
        struct h2_heard *st = h2c_of(arg, id);

        (void)s;
        st->is_closed = true;
        st->error = error;
        return 0;
}

/* ---- what it says ---- */

static ssize_t read_body(nghttp2_session *s, int32_t id, uint8_t *to, size_t room, uint32_t *flags,
                         nghttp2_data_source *source, void *arg)
{
        static const nghttp2_nv trailer = {(uint8_t *)"x-trailer", (uint8_t *)"1", 9, 1, NGHTTP2_NV_FLAG_NONE};
        struct h2_heard *st = h2c_of(arg, id);
        size_t n = st->out_len - st->out_sent < room ? st->out_len - st->out_sent : room;

        (void)source;
        if (n)
                memcpy(to, st->out + st->out_sent, n);
        st->out_sent += n;
        if (st->out_sent == st->out_len && st->out_ends) {
                *flags |= NGHTTP2_DATA_FLAG_EOF;
                if (st->out_has_trailer) {
                        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
                        (void)nghttp2_submit_trailer(s, id, &trailer, 1);
                }
        }
        if (n == 0 && !(*flags & NGHTTP2_DATA_FLAG_EOF))
                return NGHTTP2_ERR_DEFERRED;
        return (ssize_t)n;
}

int32_t h2c_ask_raw(struct h2c *c, const char *const *fields, const char *body)
{
        const nghttp2_data_provider source = {.read_callback = read_body};
        nghttp2_nv nv[256];
        size_t n = 0;
        int32_t id = nghttp2_session_get_next_stream_id(c->session) > 0x7fffffff
                             ? -1
                             : (int32_t)nghttp2_session_get_next_stream_id(c->session);
        struct h2_heard *st = h2c_of(c, id);

        for (; fields[2 * n] && n < ARRAY_LEN(nv); n++)
                nv[n] = (nghttp2_nv){(uint8_t *)(uintptr_t)fields[2 * n], (uint8_t *)(uintptr_t)fields[2 * n + 1],
                                     strlen(fields[2 * n]), strlen(fields[2 * n + 1]), NGHTTP2_NV_FLAG_NONE};
        free(st->fields);
        free(st->body);
        free(st->out);
        *st = (struct h2_heard){0};
        if (body && body != H2_OPEN) {
                append(&st->out, 0, body, strlen(body));
                st->out_len = strlen(body);
                st->out_ends = true;
        }
        return nghttp2_submit_request(c->session, NULL, nv, n, body ? &source : NULL, NULL);
}

int32_t h2c_ask(struct h2c *c, const char *method, const char *authority, const char *path, const char *const *fields,
                const char *body)
{
        const char *all[512] = {":method", method, ":scheme", "https", ":authority", authority, ":path", path};
        size_t n = 8;

        for (; fields && *fields && n < ARRAY_LEN(all) - 2; n++)
                all[n] = *fields++;
        return h2c_ask_raw(c, all, body);
}

void h2c_send(struct h2c *c, int32_t id, const void *p, size_t n, bool ends)
{
        struct h2_heard *st = h2c_of(c, id);

        append(&st->out, st->out_len, p, n);
        st->out_len += n;
        st->out_ends = ends;
        (void)nghttp2_session_resume_data(c->session, id);
        (void)h2c_push(c);
}

void h2c_reset(struct h2c *c, int32_t id)
{
        (void)nghttp2_submit_rst_stream(c->session, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
        (void)h2c_push(c);
}

/* ---- moving bytes ---- */

static bool wait_for(const struct h2c *c, short what, int ms)
{
        struct pollfd p = {.fd = c->fd, .events = what};

        return poll(&p, 1, ms) == 1;
}

static bool write_all(struct h2c *c, const uint8_t *p, size_t n)
{
        while (n) {
                size_t w = 0;
                int r;

                ERR_clear_error();
                r = SSL_write_ex(c->ssl, p, n, &w);
                if (r != 1) {
                        int why = SSL_get_error(c->ssl, r);

                        if ((why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE) ||
                            !wait_for(c, why == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, WAIT_MS)) {
                                c->is_dead = true;
                                return false;
                        }
                        continue;
                }
                p += w;
                n -= w;
        }
        return true;
}

bool h2c_push(struct h2c *c)
{
        while (c->session) {
                const uint8_t *p;
                ssize_t n = nghttp2_session_mem_send(c->session, &p);

                if (n <= 0)
                        return n == 0;
                if (!write_all(c, p, (size_t)n))
                        return false;
        }
        return true;
}

void h2c_frame(struct h2c *c, unsigned type, unsigned flags, int32_t id, const void *p, size_t n)
{
        uint8_t head[9] = {(uint8_t)(n >> 16),  (uint8_t)(n >> 8),   (uint8_t)n,         (uint8_t)type, (uint8_t)flags,
                           (uint8_t)(id >> 24), (uint8_t)(id >> 16), (uint8_t)(id >> 8), (uint8_t)id};

        if (h2c_push(c) && write_all(c, head, sizeof(head)))
                (void)write_all(c, p, n);
}

/* One read; false: nothing came in the time. */
static bool hear(struct h2c *c, int ms)
{
        static uint8_t bytes[64 << 10];
        size_t n = 0;
        int r, why;

        if (!SSL_has_pending(c->ssl) && !wait_for(c, POLLIN, ms))
                return false;
        ERR_clear_error();
        r = SSL_read_ex(c->ssl, bytes, sizeof(bytes), &n);
        if (r == 1) {
                if (c->session && nghttp2_session_mem_recv(c->session, bytes, n) < 0)
                        c->is_dead = true;
                (void)h2c_push(c);
                return true;
        }
        why = SSL_get_error(c->ssl, r);
        if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
                return true;
        c->is_dead = true;
        c->is_reset = why != SSL_ERROR_ZERO_RETURN;
        return false;
}

static long now_ms(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

#define WAIT_UNTIL(c, condition)                                                                                       \
        ({                                                                                                             \
                long until_ = now_ms() + WAIT_MS;                                                                      \
                (void)h2c_push(c);                                                                                     \
                while (!(condition) && !(c)->is_dead && now_ms() < until_)                                             \
                        (void)hear(c, (int)(until_ - now_ms()));                                                       \
                (condition);                                                                                           \
        })

bool h2c_wait_head(struct h2c *c, int32_t id)
{
        struct h2_heard *st = h2c_of(c, id);

        (void)WAIT_UNTIL(c, st->status || st->is_closed);
        return st->status > 0;
}

bool h2c_wait_end(struct h2c *c, int32_t id)
{
        return WAIT_UNTIL(c, h2c_of(c, id)->is_closed);
}

bool h2c_is_reset(struct h2c *c, int32_t id)
{
        return h2c_wait_end(c, id) && !h2c_of(c, id)->is_ended && h2c_of(c, id)->error == NGHTTP2_INTERNAL_ERROR;
}

bool h2c_wait_body(struct h2c *c, int32_t id, size_t n)
{
        struct h2_heard *st = h2c_of(c, id);

        (void)WAIT_UNTIL(c, st->body_len >= n || st->is_closed);
        return st->body_len >= n;
}

bool h2c_wait_dead(struct h2c *c)
{
        return WAIT_UNTIL(c, c->is_dead);
}

bool h2c_wait_goaway(struct h2c *c, unsigned count)
{
        return WAIT_UNTIL(c, c->goaways >= count);
}

void h2c_idle(struct h2c *c, int ms)
{
        long until = now_ms() + ms;

        (void)h2c_push(c);
        do {
                long left = until - now_ms();

                (void)hear(c, left > 0 ? (int)left : 0);
        } while (!c->is_dead && now_ms() < until);
}

/* ---- coming and going ---- */

static bool connect_tls(struct h2c *c)
{
        static const unsigned char alpn[] = "\x02h2";
        const unsigned char *chosen = NULL;
        unsigned n = 0;

        c->ctx = SSL_CTX_new(TLS_client_method());
        c->ssl = c->ctx ? SSL_new(c->ctx) : NULL;
        if (!c->ssl || SSL_set_fd(c->ssl, c->fd) != 1 || SSL_set_alpn_protos(c->ssl, alpn, sizeof(alpn) - 1) != 0)
                return false;
        (void)SSL_set_tlsext_host_name(c->ssl, "localhost");
        if (SSL_connect(c->ssl) != 1)
                return false;
        SSL_get0_alpn_selected(c->ssl, &chosen, &n);
        return n == 2 && memcmp(chosen, "h2", 2) == 0;
}

static bool start_session(struct h2c *c, const struct h2c_options *opt)
{
        const nghttp2_settings_entry settings[] = {
                {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, opt->window ? opt->window : 65535},
                {NGHTTP2_SETTINGS_ENABLE_PUSH, 0}};
        nghttp2_session_callbacks *cb = NULL;
        nghttp2_option *option = NULL;
        bool is_fine;

        if (nghttp2_session_callbacks_new(&cb) != 0 || nghttp2_option_new(&option) != 0)
                return false;
        nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
        nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
        nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
        nghttp2_option_set_no_auto_window_update(option, opt->no_window_updates);
        nghttp2_option_set_no_http_messaging(option, opt->is_lax);
        nghttp2_option_set_peer_max_concurrent_streams(option, H2_STREAMS);
        is_fine = nghttp2_session_client_new2(&c->session, cb, c, option) == 0 &&
                  nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, settings, ARRAY_LEN(settings)) == 0;
        if (is_fine && !opt->no_window_updates)
                (void)nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0, 16 << 20);
        nghttp2_session_callbacks_del(cb);
        nghttp2_option_del(option);
        return is_fine;
}

struct h2c *h2c_connect(const struct world *w)
{
        struct h2c *c = calloc(1, sizeof(*c));

        if (!c)
                abort();
        c->keeps_bodies = true;
        (void)signal(SIGPIPE, SIG_IGN); /* OpenSSL writes without a flag against it */
        c->fd = dial_port(w->tls_port);
        (void)setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_sec = WAIT_MS / 1000},
                         sizeof(struct timeval));
        if (c->fd < 0 || !connect_tls(c)) {
                printf("# no HTTP/2 connection: %s\n", ERR_reason_error_string(ERR_peek_last_error()));
                h2c_close(&c);
                return NULL;
        }
        (void)fcntl(c->fd, F_SETFL, O_NONBLOCK);
        return c;
}

struct h2c *h2c_open(const struct world *w, const struct h2c_options *opt)
{
        static const struct h2c_options usual = {0};
        struct h2c *c = h2c_connect(w);

        if (!c)
                return NULL;
        if (!start_session(c, opt ? opt : &usual) || !WAIT_UNTIL(c, c->has_settings))
                printf("# no SETTINGS came\n");
        return c;
}

bool h2c_write(struct h2c *c, const void *p, size_t n)
{
        return write_all(c, p, n);
}

void h2c_close(struct h2c **at)
{
        struct h2c *c = *at;

        if (!c)
                return;
        nghttp2_session_del(c->session);
        SSL_free(c->ssl);
        SSL_CTX_free(c->ctx);
        close_fd(&c->fd);
        for (size_t i = 0; i < H2_STREAMS; i++) {
                free(c->heard[i].fields);
                free(c->heard[i].body);
                free(c->heard[i].out);
        }
        free(c);
        *at = NULL;
}
