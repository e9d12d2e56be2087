/* Getting a connection that takes the first byte: a kept one, or one address after the other. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "http/client_impl.h"
#include "io/listener.h"

void call_connect_close(struct http_call *call)
{
        loop_del(&call->connecting);
        close_fd(&call->connecting.fd);
        call->conn = client_conn_free(call->conn);
}

static void call_use_conn(struct http_call *call, struct http_client_conn *conn)
{
        call->conn = conn;
        conn->call = call;
}

static int call_use_socket(struct http_call *call, int fd)
{
        struct http_client_conn *conn;
        int r = client_conn_create(call->client, fd, &conn);

        if (r == 0)
                call_use_conn(call, conn);
        return r;
}

/* ---- one address after the other ---- */

static void connect_ready(struct io *io, uint32_t events)
{
        (void)events;
        call_advance(CONTAINER_OF(io, struct http_call, connecting));
}

/* 0: connected, or on its way (`connecting`). */
static int connect_begin(struct http_call *call, const struct addrinfo *to)
{
        AUTO_CLOSE int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        const int on = 1;
        int r;

        if (fd < 0)
                return -errno;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        if (connect(fd, to->ai_addr, to->ai_addrlen) == 0)
                return call_use_socket(call, TAKE_FD(fd));
        if (errno != EINPROGRESS)
                return -errno;
        call->connecting = (struct io){.fd = fd, .on = connect_ready};
        r = loop_add(call->client->loop, &call->connecting, EPOLLOUT);
        if (r < 0)
                call->connecting.fd = -1;
        else
                (void)TAKE_FD(fd);
        return r;
}

/* 0: connected; -EINPROGRESS: not yet; another negative errno: this address does not answer. */
static int connect_check(struct http_call *call)
{
        struct sockaddr_storage peer;
        socklen_t peer_len = sizeof(peer), error_len = sizeof(int);
        int fd = call->connecting.fd, error = 0;

        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_len) < 0)
                return -errno;
        if (error)
                return -error;
        if (getpeername(fd, (struct sockaddr *)(void *)&peer, &peer_len) < 0)
                return errno == ENOTCONN ? -EINPROGRESS : -errno;
        loop_del(&call->connecting);
        call->connecting.fd = -1;
        return call_use_socket(call, fd);
}

static void connect_tcp(struct http_call *call)
{
        int r = -EHOSTUNREACH;

        if (call->connecting.fd >= 0) {
                r = connect_check(call);
                if (r == -EINPROGRESS)
                        return;
                if (r < 0)
                        call_connect_close(call);
        }
        while (r < 0 && call->next_address) {
                const struct addrinfo *to = call->next_address;

                call->next_address = to->ai_next;
                r = connect_begin(call, to);
        }
        if (r < 0)
                call_fail_sys(call, r, "connect to");
}

static void connect_unix_socket(struct http_call *call)
{
        int fd = -1, r = connect_unix(call->client->unix_path, &fd);

        if (r == 0)
                r = call_use_socket(call, fd);
        if (r < 0)
                call_fail_sys(call, r, "connect to");
}

/* ---- the step ---- */

static void connect_first(struct http_call *call)
{
        struct http_client *c = call->client;
        struct http_client_conn *kept = NULL;
        int r = call->is_on_kept ? client_take_kept(c, &kept) : -EPIPE;

        if (kept)
                call_use_conn(call, kept);
        else if (c->uses_given_connection)
                call_fail_sys(call, r, "connect to");
        else if (c->unix_path)
                connect_unix_socket(call);
        else
                connect_tcp(call);
        call->is_on_kept = kept != NULL;
}

void call_connect(struct http_call *call)
{
        if (!call->conn)
                connect_first(call);
        if (call->conn && call->state == CALL_CONNECTING)
                call_send(call);
        if (call->state == CALL_CONNECTING && (call->has_moved || call->sending == SENDING_OVER))
                call_go(call, CALL_HEAD);
}
