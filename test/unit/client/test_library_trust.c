/* libsandglass by TLS: which authorities a client trusts. */
#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "cert_pair.h"
#include "sandglass.h"
#include "tap.h"

static char dir[] = "/tmp/library-trust-XXXXXX";

static const char *in_dir(const char *name)
{
        static char path[8][64];
        static unsigned next;
        char *p = path[next++ % ARRAY_LEN(path)];

        (void)snprintf(p, sizeof(path[0]), "%s/%s", dir, name);
        return p;
}

/* A server with the certificate NAME.pem that answers one request of one client. */
struct tls_server {
        SSL_CTX *ctx;
        int fd;
        char url[40];
        pthread_t thread;
};

static void *tls_serve(void *arg)
{
        static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
        struct tls_server *s = arg;
        AUTO_CLOSE int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC);
        SSL *ssl = SSL_new(s->ctx);
        char piece[4096];

        if (fd >= 0 && ssl && SSL_set_fd(ssl, fd) == 1 && SSL_accept(ssl) == 1 &&
            SSL_read(ssl, piece, sizeof(piece)) > 0 && SSL_write(ssl, answer, sizeof(answer) - 1) > 0)
                (void)SSL_shutdown(ssl);
        SSL_free(ssl);
        return NULL;
}

static void tls_start(struct tls_server *s, const char *cert, const char *key)
{
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t n = sizeof(at);

        s->ctx = SSL_CTX_new(TLS_server_method());
        s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (!s->ctx || SSL_CTX_use_certificate_file(s->ctx, in_dir(cert), SSL_FILETYPE_PEM) != 1 ||
            SSL_CTX_use_PrivateKey_file(s->ctx, in_dir(key), SSL_FILETYPE_PEM) != 1 || s->fd < 0 ||
            bind(s->fd, (struct sockaddr *)&at, n) < 0 || listen(s->fd, 4) < 0 ||
            getsockname(s->fd, (struct sockaddr *)&at, &n) < 0)
                abort();
        (void)snprintf(s->url, sizeof(s->url), "https://127.0.0.1:%u", ntohs(at.sin_port));
        if (pthread_create(&s->thread, NULL, tls_serve, s) != 0)
                abort();
}

static void tls_stop(struct tls_server *s)
{
        (void)pthread_join(s->thread, NULL);
        (void)close(s->fd);
        SSL_CTX_free(s->ctx);
}

/* How a client with this ca_file (NULL: none) gets on with the server that has the certificate `name`. */
static enum sg_error_kind visit(const char *name, const char *ca_file)
{
        char cert[32], key[32];
        struct tls_server s = {0};
        struct sg_client *c = NULL;
        struct sg_answer *answer = NULL;
        struct sg_error err = {0};

        (void)snprintf(cert, sizeof(cert), "%s.pem", name);
        (void)snprintf(key, sizeof(key), "%s.key", name);
        tls_start(&s, cert, key);
        if (sg_client_open(&(struct sg_client_options){.api_key = "e2b_00", .api_url = s.url, .ca_file = ca_file}, &c,
                           &err) == 0)
                (void)sg_request(c, "GET", "/health", NULL, NULL, NULL, &answer, &err);
        sg_free(answer);
        sg_client_free(c);
        tls_stop(&s);
        return err.kind;
}

static void a_ca_file_is_trusted_besides_the_authorities_of_the_system(void)
{
        CHECK(cert_pair_write(in_dir("system.pem"), in_dir("system.key"), "IP:127.0.0.1", 90));
        CHECK(cert_pair_write(in_dir("own.pem"), in_dir("own.key"), "IP:127.0.0.1", 90));
        CHECK(cert_pair_write(in_dir("other.pem"), in_dir("other.key"), "IP:127.0.0.1", 90));
        (void)setenv("SSL_CERT_FILE", in_dir("system.pem"), 1); /* takes their place */
        (void)setenv("SSL_CERT_DIR", in_dir("none"), 1);
        CHECK_INT(visit("system", NULL), ==, SG_OK);
        CHECK_INT(visit("own", NULL), ==, SG_DENIED);
        CHECK_INT(visit("own", in_dir("own.pem")), ==, SG_OK);
        CHECK_INT(visit("system", in_dir("own.pem")), ==, SG_OK);
        CHECK_INT(visit("other", in_dir("own.pem")), ==, SG_DENIED);
}

int main(void)
{
        char command[64];

        if (!mkdtemp(dir))
                return 1;
        (void)signal(SIGPIPE, SIG_IGN);
        RUN(a_ca_file_is_trusted_besides_the_authorities_of_the_system);
        (void)snprintf(command, sizeof(command), "rm -rf %s", dir);
        return system(command) != 0 ? 1 : tap_done();
}
