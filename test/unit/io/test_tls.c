#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "io/cert_facts.h"
#include "io/stream.h"
#include "io/tls.h"

static struct loop *loop;
static char dir[] = "/tmp/tls-XXXXXX";
static struct tls_context *tls;

static const char *in_dir(const char *name)
{
        static char path[4][120];
        static unsigned next;
        char *p = path[next++ % 4];

        (void)snprintf(p, sizeof(path[0]), "%s/%s", dir, name);
        return p;
}

/* ---- a stream that echoes what it reads, and a client in the same process ---- */

struct server {
        struct stream s;
        struct buf buf;
        ssize_t end; /* how reading ended; 1: not yet */
        size_t most_per_read;
        unsigned calls;
        uint64_t to_send;
};

static void server_write(struct server *v)
{
        static uint8_t zeros[100000];
        ssize_t n = 0;

        while (v->to_send) {
                n = stream_write(&v->s, zeros, v->to_send < sizeof(zeros) ? v->to_send : sizeof(zeros));
                if (n < 0)
                        break;
                v->to_send -= (uint64_t)n;
        }
        while (v->buf.len) {
                n = stream_write(&v->s, buf_at(&v->buf), v->buf.len);
                if (n < 0)
                        break;
                buf_consume(&v->buf, (size_t)n);
        }
        if (n < 0 && n != -EAGAIN)
                v->end = n;
}

static void on_server(struct stream *s, uint32_t events)
{
        struct server *v = CONTAINER_OF(s, struct server, s);
        uint8_t *at;
        ssize_t n;

        v->calls++;
        if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
                size_t most = v->most_per_read ? v->most_per_read : 4096;

                if (buf_reserve(&v->buf, most, &at) < 0)
                        return;
                n = stream_read(s, at, most);
                if (n > 0)
                        buf_commit(&v->buf, (size_t)n);
                else if (n != -EAGAIN)
                        v->end = n;
        }
        server_write(v);
        stream_want(s, v->end == 1 ? EPOLLIN | (v->buf.len || v->to_send ? EPOLLOUT : 0) : 0);
        if (v->end != 1)
                loop_del(&s->io);
}

static int server_start(struct server *v, struct tls_context *t, int *ret_client)
{
        int p[2], r;

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, p) < 0)
                return -errno;
        *v = (struct server){.buf = BUF_INIT(8 << 20), .end = 1};
        *ret_client = p[1];
        r = stream_init(&v->s, loop, p[0], t, on_server);
        if (r == 0)
                stream_want(&v->s, EPOLLIN);
        return r;
}
static void server_done(struct server *v)
{
        stream_done(&v->s);
        buf_done(&v->buf);
}
#define AUTO_SERVER AUTO(server_done)

static void stop(struct task *t)
{
        (void)t;
        loop_stop(loop);
}
static void turn(void)
{
        struct task t = {.run = stop};

        loop_post(loop, &t);
        (void)loop_run(loop);
}

struct client {
        SSL_CTX *ctx;
        SSL *ssl;
};
static void client_done(struct client *c)
{
        SSL_free(c->ssl);
        SSL_CTX_free(c->ctx);
}
#define AUTO_CLIENT AUTO(client_done)

static int client_start(struct client *c, int fd, const char *host, const char *alpn)
{
        c->ctx = SSL_CTX_new(TLS_client_method());
        if (!c->ctx || SSL_CTX_load_verify_locations(c->ctx, in_dir("ca.pem"), NULL) != 1)
                return -1;
        SSL_CTX_set_verify(c->ctx, SSL_VERIFY_PEER, NULL);
        SSL_CTX_set_mode(c->ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        c->ssl = SSL_new(c->ctx);
        if (!c->ssl || SSL_set_fd(c->ssl, fd) != 1)
                return -1;
        if (alpn && SSL_set_alpn_protos(c->ssl, (const unsigned char *)alpn, (unsigned)strlen(alpn)) != 0)
                return -1;
        if (strcmp(host, "127.0.0.1") == 0) {
                X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(c->ssl), host);
        } else {
                SSL_set_tlsext_host_name(c->ssl, host);
                SSL_set1_host(c->ssl, host);
        }
        SSL_set_connect_state(c->ssl);
        return 0;
}

static int handshake(struct client *c)
{
        for (int i = 0; i < 50; i++) {
                int r = SSL_do_handshake(c->ssl), e = SSL_get_error(c->ssl, r);

                if (r == 1)
                        return 0;
                if (e != SSL_ERROR_WANT_READ && e != SSL_ERROR_WANT_WRITE)
                        return -1;
                turn();
        }
        return -2;
}

/* ---- cases ---- */

static void a_verified_client_is_served(const char *host)
{
        AUTO_SERVER struct server v = {.s.io.fd = -1};
        AUTO_CLIENT struct client c = {0};
        AUTO_CLOSE int fd = -1;
        char got[64] = {0};
        int n = 0;

        CHECK_INT(server_start(&v, tls, &fd), ==, 0);
        CHECK_INT(client_start(&c, fd, host, "\x02h2\x08http/1.1"), ==, 0);
        CHECK_INT(handshake(&c), ==, 0);
        CHECK(stream_is_tls(&v.s));
        CHECK_INT(SSL_version(c.ssl), ==, TLS1_3_VERSION);
        CHECK(SSL_write(c.ssl, "hello", 5) == 5);
        for (int i = 0; i < 20 && n < 5; i++) {
                int r = SSL_read(c.ssl, got + n, 5 - n);

                n += r > 0 ? r : 0;
                turn();
        }
        CHECK_STR(got, "hello");
}

static void the_certificate_holds_for_every_name(void)
{
        static const char *const hosts[] = {"localhost", "127.0.0.1", "api.localhost", "49983-iabc123.localhost",
                                            "sandbox.localhost"};

        for (size_t i = 0; i < ARRAY_LEN(hosts) && !tap_case_failed; i++) {
                a_verified_client_is_served(hosts[i]);
                if (tap_case_failed)
                        printf("# host %s\n", hosts[i]);
        }
}

static void a_name_outside_the_domain_is_not_vouched_for(void)
{
        static const char *const hosts[] = {"example.com", "a.b.localhost", "localhost.example.com", "xlocalhost"};

        for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
                AUTO_SERVER struct server v = {.s.io.fd = -1};
                AUTO_CLIENT struct client c = {0};
                AUTO_CLOSE int fd = -1;

                CHECK_INT(server_start(&v, tls, &fd), ==, 0);
                CHECK_INT(client_start(&c, fd, hosts[i], NULL), ==, 0);
                CHECK_INT(handshake(&c), ==, -1);
                CHECK(SSL_get_verify_result(c.ssl) == X509_V_ERR_HOSTNAME_MISMATCH);
        }
}

static void alpn_follows_our_order_and_refuses_strangers(void)
{
        AUTO_SERVER struct server v = {.s.io.fd = -1}, w = {.s.io.fd = -1};
        AUTO_CLIENT struct client c = {0}, d = {0};
        AUTO_CLOSE int fd = -1, fd2 = -1;
        const unsigned char *p;
        unsigned n;

        CHECK_INT(server_start(&v, tls, &fd), ==, 0);
        CHECK_INT(client_start(&c, fd, "localhost", "\x02h2\x08http/1.1"), ==, 0);
        CHECK_INT(handshake(&c), ==, 0);
        SSL_get0_alpn_selected(c.ssl, &p, &n);
        CHECK(n == 8 && memcmp(p, "http/1.1", 8) == 0);
        CHECK_INT(server_start(&w, tls, &fd2), ==, 0);
        CHECK_INT(client_start(&d, fd2, "localhost", "\x03irc"), ==, 0);
        CHECK_INT(handshake(&d), ==, -1);
}

static void old_protocol_versions_are_refused(void)
{
        AUTO_SERVER struct server v = {.s.io.fd = -1};
        AUTO_CLIENT struct client c = {0};
        AUTO_CLOSE int fd = -1;

        CHECK_INT(server_start(&v, tls, &fd), ==, 0);
        CHECK_INT(client_start(&c, fd, "localhost", NULL), ==, 0);
        SSL_set_max_proto_version(c.ssl, TLS1_1_VERSION);
        SSL_set_security_level(c.ssl, 0);
        CHECK_INT(handshake(&c), ==, -1);
}

static void large_data_flows_both_ways_through_small_steps(void)
{
        static uint8_t out[300000], in[300000];
        AUTO_SERVER struct server v = {.s.io.fd = -1};
        AUTO_CLIENT struct client c = {0};
        AUTO_CLOSE int fd = -1;
        size_t sent = 0, got = 0;

        for (size_t i = 0; i < sizeof(out); i++)
                out[i] = (uint8_t)(i * 31 >> 3);
        CHECK_INT(server_start(&v, tls, &fd), ==, 0);
        v.most_per_read = 1000; /* less than a record: the rest waits inside the TLS layer */
        CHECK_INT(client_start(&c, fd, "localhost", NULL), ==, 0);
        CHECK_INT(handshake(&c), ==, 0);
        for (int i = 0; i < 100000 && got < sizeof(in); i++) {
                size_t n = 0;

                if (sent < sizeof(out) && SSL_write_ex(c.ssl, out + sent, sizeof(out) - sent, &n) == 1)
                        sent += n;
                n = 0;
                if (SSL_read_ex(c.ssl, in + got, sizeof(in) - got, &n) == 1)
                        got += n;
                turn();
        }
        CHECK_INT(got, ==, sizeof(in));
        CHECK(memcmp(in, out, sizeof(in)) == 0);
}

static void a_slow_reader_stops_the_writer(void)
{
        static uint8_t in[1 << 16];
        AUTO_SERVER struct server v = {.s.io.fd = -1};
        AUTO_CLIENT struct client c = {0};
        AUTO_CLOSE int fd = -1;
        uint64_t total = 4 << 20, got = 0;
        unsigned calls;

        CHECK_INT(server_start(&v, tls, &fd), ==, 0);
        CHECK_INT(client_start(&c, fd, "localhost", NULL), ==, 0);
        CHECK_INT(handshake(&c), ==, 0);
        v.to_send = total;
        stream_want(&v.s, EPOLLIN | EPOLLOUT);
        for (int i = 0; i < 10; i++)
                turn();
        CHECK_INT(v.to_send, >, total / 2);
        calls = v.calls;
        for (int i = 0; i < 10; i++)
                turn();
        CHECK_INT(v.calls, ==, calls); /* it waits, it does not spin */
        for (int i = 0; i < 100000 && got < total; i++) {
                size_t n = 0;

                if (SSL_read_ex(c.ssl, in, sizeof(in), &n) == 1)
                        got += n;
                turn();
        }
        CHECK_INT(got, ==, total);
}

static void a_proper_end_and_a_cut_differ(void)
{
        for (int is_cut = 0; is_cut < 2; is_cut++) {
                AUTO_SERVER struct server v = {.s.io.fd = -1};
                AUTO_CLIENT struct client c = {0};
                int fd = -1;

                CHECK_INT(server_start(&v, tls, &fd), ==, 0);
                CHECK_INT(client_start(&c, fd, "localhost", NULL), ==, 0);
                CHECK_INT(handshake(&c), ==, 0);
                turn();
                if (!is_cut)
                        (void)SSL_shutdown(c.ssl);
                close(fd);
                for (int i = 0; i < 5; i++)
                        turn();
                if (is_cut)
                        CHECK_INT(v.end, <, 0);
                else
                        CHECK_INT(v.end, ==, 0);
        }
}

static void plain_http_on_the_tls_port_is_an_error(void)
{
        static const char *const said[] = {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "\x16\x03\x01\xff\xff",
                                           "\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8\xf7\xf6\xf5\xf4"};

        for (size_t i = 0; i < ARRAY_LEN(said); i++) {
                AUTO_SERVER struct server v = {.s.io.fd = -1};
                AUTO_CLOSE int fd = -1;

                CHECK_INT(server_start(&v, tls, &fd), ==, 0);
                CHECK(write(fd, said[i], strlen(said[i])) > 0);
                for (int k = 0; k < 5; k++)
                        turn();
                CHECK_INT(v.end, <, 0);
                CHECK_INT(v.end, !=, -EAGAIN);
                CHECK_INT(stream_read(&v.s, (char[1]){0}, 1), <, 0);
                CHECK_INT(stream_write(&v.s, "x", 1), <, 0);
        }
}

static void pieces_are_written_as_one_and_the_end_is_said(void)
{
        static uint8_t big[40000], in[50000];
        AUTO_SERVER struct server v = {.s.io.fd = -1};
        AUTO_CLIENT struct client c = {0};
        AUTO_CLOSE int fd = -1;
        struct iovec iov[] = {{(void *)(uintptr_t) "head", 4}, {big, 20}, {big, 0}, {big, sizeof(big)}, {big, 3}};
        size_t got = 0, n = 0;
        int r = 0;

        CHECK_INT(server_start(&v, tls, &fd), ==, 0);
        CHECK_INT(client_start(&c, fd, "localhost", NULL), ==, 0);
        CHECK_INT(handshake(&c), ==, 0);
        turn();
        CHECK_INT(stream_writev(&v.s, iov, ARRAY_LEN(iov)), ==, 4 + 20 + sizeof(big) + 3);
        stream_shutdown_write(&v.s);
        for (int i = 0; i < 100; i++) {
                r = SSL_read_ex(c.ssl, in + got, sizeof(in) - got, &n);
                if (r != 1)
                        break;
                got += n;
        }
        CHECK_INT(got, ==, 4 + 20 + sizeof(big) + 3);
        CHECK(memcmp(in, "head", 4) == 0);
        CHECK_INT(SSL_get_error(c.ssl, r), ==, SSL_ERROR_ZERO_RETURN);
}

static void a_plain_stream_reads_writes_and_ends(void)
{
        AUTO_SERVER struct server v = {.s.io.fd = -1};
        AUTO_CLOSE int fd = -1;
        struct iovec iov[] = {{(void *)(uintptr_t) "ab", 2}, {(void *)(uintptr_t) "cd", 2}};
        char got[16] = {0};

        CHECK_INT(server_start(&v, NULL, &fd), ==, 0);
        CHECK(!stream_is_tls(&v.s));
        CHECK(write(fd, "ping", 4) == 4);
        turn(), turn();
        CHECK_INT(stream_writev(&v.s, iov, 2), ==, 4);
        CHECK_INT(read(fd, got, sizeof(got)), ==, 8);
        CHECK_STR(got, "pingabcd");
        CHECK_INT(stream_read(&v.s, got, 1), ==, -EAGAIN);
        stream_shutdown_write(&v.s);
        CHECK_INT(read(fd, got, sizeof(got)), ==, 0);
        close_fd(&fd);
        turn();
        CHECK_INT(v.end, ==, 0);
        CHECK_INT(stream_write(&v.s, "x", 1), ==, -EPIPE);
}

/* ---- the local CA ---- */

static long size_and_inode(const char *name)
{
        struct stat st;

        return stat(in_dir(name), &st) == 0 ? (long)st.st_ino : -1;
}

static void the_ca_is_made_once_and_the_leaf_again_when_needed(void)
{
        struct err err = {0};
        struct stat st;
        long ca, cert;

        CHECK(stat(in_dir("ca.key"), &st) == 0 && (st.st_mode & 0777) == 0600);
        CHECK(stat(in_dir("key.pem"), &st) == 0 && (st.st_mode & 0777) == 0600);
        ca = size_and_inode("ca.pem");
        cert = size_and_inode("cert.pem");
        CHECK_INT(tls_local_ca(dir, "localhost", &err), ==, 0);
        CHECK_INT(size_and_inode("cert.pem"), ==, cert); /* all valid: nothing is touched */
        CHECK_INT(tls_local_ca(dir, "box.example.test", &err), ==, 0);
        CHECK_INT(size_and_inode("ca.pem"), ==, ca);
        CHECK_INT(size_and_inode("cert.pem"), !=, cert);
        CHECK(truncate(in_dir("key.pem"), 20) == 0);
        CHECK_INT(tls_local_ca(dir, "box.example.test", &err), ==, 0);
        CHECK_INT(size_and_inode("ca.pem"), ==, ca);
        CHECK(unlink(in_dir("ca.key")) == 0); /* cannot sign any more: a new CA, and with it a new leaf */
        cert = size_and_inode("cert.pem");
        CHECK_INT(tls_local_ca(dir, "box.example.test", &err), ==, 0);
        CHECK_INT(size_and_inode("ca.pem"), !=, ca);
        CHECK_INT(size_and_inode("cert.pem"), !=, cert);
}

static int load_context(struct err *err)
{
        static const char *const alpn[] = {"http/1.1", NULL};
        const struct tls_options opt = {in_dir("cert.pem"), in_dir("key.pem"), alpn};

        tls = tls_context_free(tls);
        return tls_context_create(&opt, &tls, err);
}

static void another_domain_has_its_wildcard(void)
{
        struct err err = {0};

        CHECK_INT(load_context(&err), ==, 0);
        a_verified_client_is_served("49983-iabc.box.example.test");
        if (!tap_case_failed)
                a_verified_client_is_served("box.example.test");
        if (!tap_case_failed)
                a_verified_client_is_served("localhost");
}

static void a_context_may_be_replaced_in_the_middle_of_a_handshake(void)
{
        AUTO_SERVER struct server v = {.s.io.fd = -1};
        AUTO_CLIENT struct client c = {0};
        AUTO_CLOSE int fd = -1;
        struct err err = {0};
        const unsigned char *p;
        unsigned n;

        CHECK_INT(server_start(&v, tls, &fd), ==, 0);
        CHECK_INT(client_start(&c, fd, "49983-iabc.box.example.test", "\x08http/1.1"), ==, 0);
        (void)SSL_do_handshake(c.ssl); /* the client's first words are on their way */
        CHECK_INT(load_context(&err), ==, 0);
        CHECK_INT(handshake(&c), ==, 0);
        SSL_get0_alpn_selected(c.ssl, &p, &n); /* by a callback of the one before */
        CHECK(n == 8 && memcmp(p, "http/1.1", 8) == 0);
}

/* ---- facts ---- */

static void facts_of_a_file_are_those_that_clients_go_by(void)
{
        struct cert_facts f;
        struct err err = {0};
        char ca[120];

        (void)snprintf(ca, sizeof(ca), "%s", in_dir("ca.pem"));
        CHECK_INT(cert_facts_of_file(in_dir("cert.pem"), "3000-i.box.example.test", ca, &f, &err), ==, 0);
        CHECK(f.covers_name && !f.distrusted[0]);
        CHECK(f.begins_s < time(NULL) && f.ends_s > time(NULL) + 300 * 86400);
        CHECK(f.issuer[0]);
        CHECK_INT(cert_facts_of_file(in_dir("cert.pem"), "3000-i.other.example.test", ca, &f, &err), ==, 0);
        CHECK(!f.covers_name && !f.distrusted[0]);
        CHECK_INT(cert_facts_of_file(in_dir("cert.pem"), "a.b.box.example.test", ca, &f, &err), ==, 0);
        CHECK(!f.covers_name);
        CHECK_INT(cert_facts_of_file(in_dir("cert.pem"), "x", NULL, &f, &err), ==,
                  0); /* the system knows nothing of it */
        CHECK(f.distrusted[0]);
        CHECK_INT(cert_facts_of_file(in_dir("cert.pem"), "x", "/dev/null", &f, &err), ==, 0);
        CHECK_STR(f.distrusted, "the authorities cannot be read");
        CHECK_INT(cert_facts_of_file(in_dir("key.pem"), "x", ca, &f, &err), <, 0);
        CHECK_INT(err.kind, ==, ERR_INVALID);
        CHECK_INT(cert_facts_of_file(in_dir("none.pem"), "x", ca, &f, &err), <, 0);
        CHECK(strstr(err.msg, "none.pem"));
}

static void a_peer_that_speaks_no_tls_is_told_apart(void)
{
        AUTO_CLOSE int a = -1, b = -1;
        struct cert_facts f;
        struct err err = {0};
        int p[2];

        CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p), ==, 0);
        a = p[0], b = p[1];
        CHECK(write(b, "HTTP/1.1 400 Bad Request\r\n\r\n", 28) == 28);
        CHECK_INT(cert_facts_of_server(a, "box.example.test", in_dir("ca.pem"), &f, &err), <, 0);
        CHECK(strstr(err.msg, "TLS handshake for 'box.example.test'"));
}

static void strange_domains_and_missing_files_are_refused(void)
{
        static const char *const bad[] = {"", ".", "a..b", "A.b", "a,DNS:evil.com", "a b", "*.a", "a/b", "x\n", "a."};
        struct err err = {0};

        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                CHECK_INT(tls_local_ca(dir, bad[i], &err), <, 0);
                CHECK_INT(err.kind, ==, ERR_INVALID);
        }
        CHECK_INT(tls_local_ca("/proc/none/there", "localhost", &err), <, 0);
        CHECK_INT(tls_local_ca(dir, "10.1.2.3", &err), ==, 0);
        CHECK_INT(load_context(&err), ==, 0);
        CHECK(truncate(in_dir("key.pem"), 0) == 0);
        CHECK_INT(load_context(&err), <, 0);
        CHECK(strstr(err.msg, "key.pem"));
        CHECK(unlink(in_dir("cert.pem")) == 0);
        CHECK_INT(load_context(&err), <, 0);
        CHECK(strstr(err.msg, "cert.pem"));
}

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
        (void)st, (void)flag, (void)ftw;
        return remove(path);
}

int main(void)
{
        struct err err = {0};

        if (loop_create(&loop) < 0 || !mkdtemp(dir) || tls_local_ca(dir, "localhost", &err) < 0 ||
            load_context(&err) < 0) {
                printf("Bail out! %s\n", err.msg);
                return 1;
        }
        RUN(the_certificate_holds_for_every_name);
        RUN(a_name_outside_the_domain_is_not_vouched_for);
        RUN(alpn_follows_our_order_and_refuses_strangers);
        RUN(old_protocol_versions_are_refused);
        RUN(large_data_flows_both_ways_through_small_steps);
        RUN(a_slow_reader_stops_the_writer);
        RUN(a_proper_end_and_a_cut_differ);
        RUN(plain_http_on_the_tls_port_is_an_error);
        RUN(pieces_are_written_as_one_and_the_end_is_said);
        RUN(a_plain_stream_reads_writes_and_ends);
        RUN(the_ca_is_made_once_and_the_leaf_again_when_needed);
        RUN(another_domain_has_its_wildcard);
        RUN(a_context_may_be_replaced_in_the_middle_of_a_handshake);
        RUN(facts_of_a_file_are_those_that_clients_go_by);
        RUN(a_peer_that_speaks_no_tls_is_told_apart);
        RUN(strange_domains_and_missing_files_are_refused);
        tls = tls_context_free(tls);
        loop = loop_free(loop);
        (void)nftw(dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
        return tap_done();
}
