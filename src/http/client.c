#include "http/client.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "http/client_impl.h"

/* ---- connections ---- */

static void conn_ready(struct stream *s, uint32_t events)
{
        struct http_client_conn *conn = CONTAINER_OF(s, struct http_client_conn, stream);
        struct http_client *c = conn->client;

        (void)events;
        if (conn->call)
                call_advance(conn->call);
        else
                c->kept = client_conn_free(conn); /* it was closed, or says what nobody asked for */
}

int client_conn_create(struct http_client *c, int fd, struct http_client_conn **ret)
{
        struct http_client_conn *conn;
        int r;

        conn = calloc(1, sizeof(*conn));
        if (!conn) {
                close_fd(&fd);
                return -ENOMEM;
        }
        conn->client = c;
        r = c->tls ? stream_init_client(&conn->stream, c->loop, fd, c->tls, c->origin.name, conn_ready)
                   : stream_init(&conn->stream, c->loop, fd, NULL, conn_ready);
        if (r < 0) {
                free(conn);
                return r;
        }
        *ret = conn;
        return 0;
}

struct http_client_conn *client_conn_free(struct http_client_conn *conn)
{
        if (!conn)
                return NULL;
        stream_done(&conn->stream);
        free(conn);
        return NULL;
}

/* 0: there is nothing to read, not even the end.  The loop may not have run since it was kept. */
static int conn_check_quiet(const struct http_client_conn *conn)
{
        char byte;

        if (recv(conn->stream.io.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0)
                return -EPIPE;
        return errno == EAGAIN ? 0 : -errno;
}

int client_take_kept(struct http_client *c, struct http_client_conn **ret)
{
        struct http_client_conn *conn = TAKE_PTR(c->kept);
        int r = conn ? conn_check_quiet(conn) : -EPIPE;

        timer_clear(&c->keep_timer);
        if (r < 0)
                (void)client_conn_free(conn);
        else
                *ret = conn;
        return r;
}

void client_keep(struct http_client *c, struct http_client_conn *conn)
{
        (void)client_conn_free(c->kept);
        c->kept = conn;
        conn->call = NULL;
        stream_want(&conn->stream, EPOLLIN);
        if (!c->uses_given_connection)
                timer_set(c->loop, &c->keep_timer, CLIENT_KEEP_MS);
}

static void keep_is_over(struct timer *t)
{
        struct http_client *c = CONTAINER_OF(t, struct http_client, keep_timer);

        c->kept = client_conn_free(c->kept);
}

int http_client_give(struct http_client *c, int fd, struct err *err)
{
        struct http_client_conn *conn;
        int r;

        assert(c->uses_given_connection);
        if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0) {
                r = -errno;
                close_fd(&fd);
        } else {
                r = client_conn_create(c, fd, &conn);
        }
        if (r < 0)
                return err_sys(err, r, "use the connection to %s", c->origin.host);
        client_keep(c, conn);
        return 0;
}

/* ---- the client ---- */

static int client_look_up(struct http_client *c, struct err *err)
{
        const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
        char port[8];
        int r;

        (void)snprintf(port, sizeof(port), "%u", c->origin.port);
        r = getaddrinfo(c->origin.name, port, &hints, &c->addresses);
        if (r == 0)
                return 0;
        c->addresses = NULL;
        return err_set(err, ERR_UNAVAILABLE, "find '%s': %s", c->origin.name, gai_strerror(r));
}

static int client_open(struct http_client *c, const struct http_client_options *opt, struct err *err)
{
        int r;

        r = http_origin_parse(opt->url, &c->origin, err);
        if (r < 0)
                return r;
        if (c->origin.is_tls && !opt->tls)
                return err_set(err, ERR_INVALID, "'%s': https:// needs certificate authorities to trust", opt->url);
        c->tls = c->origin.is_tls ? opt->tls : NULL;
        if (opt->unix_path) {
                c->unix_path = strdup(opt->unix_path);
                r = c->unix_path ? 0 : err_set(err, ERR_LIMIT, "out of memory");
        } else if (!opt->uses_given_connection && !c->addresses) {
                r = client_look_up(c, err);
        }
        if (r < 0 || opt->loop)
                return r;
        r = loop_create(&c->loop);
        c->owns_loop = r == 0;
        return r < 0 ? err_sys(err, r, "event loop") : 0;
}

int http_client_create(const struct http_client_options *opt, struct http_client **ret, struct err *err)
{
        struct http_client *c;
        int r;

        c = calloc(1, sizeof(*c));
        if (!c) {
                if (opt->addresses)
                        freeaddrinfo(opt->addresses);
                return err_set(err, ERR_LIMIT, "out of memory");
        }
        *c = (struct http_client){.loop = opt->loop,
                                  .uses_given_connection = opt->uses_given_connection,
                                  .addresses = opt->addresses,
                                  .timeouts = opt->timeouts,
                                  .keep_timer = {.on = keep_is_over},
                                  .cancel = -1};
        r = client_open(c, opt, err);
        if (r < 0)
                (void)http_client_free(c);
        else
                *ret = c;
        return r;
}

struct http_client *http_client_free(struct http_client *c)
{
        if (!c)
                return NULL;
        assert(c->call_count == 0);
        if (c->call_count)
                return NULL; /* libsandglass has no asserts: calls point to it */
        timer_clear(&c->keep_timer);
        (void)client_conn_free(c->kept);
        if (c->owns_loop)
                (void)loop_free(c->loop);
        if (c->addresses)
                freeaddrinfo(c->addresses);
        free(c->unix_path);
        http_origin_done(&c->origin);
        free(c);
        return NULL;
}

const char *http_client_host(const struct http_client *c)
{
        return c->origin.host;
}

struct loop *http_client_loop(const struct http_client *c)
{
        return c->loop;
}

void http_client_set_timeouts(struct http_client *c, const struct http_timeouts *timeouts)
{
        c->timeouts = *timeouts;
}

void http_client_cancel_on(struct http_client *c, int fd)
{
        c->cancel = fd;
}
