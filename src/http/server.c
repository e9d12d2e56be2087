#include "http/server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "http/conn.h"

struct server_listener {
        struct listener ln;
        struct list node;
};

static void on_stopped_task(struct task *t)
{
        struct http_server *s = CONTAINER_OF(t, struct http_server, stopped_task);

        if (s->on_stopped)
                s->on_stopped(s->stopped_arg); /* may free the server */
}

int http_server_create(const struct http_server_options *opt, struct http_server **ret)
{
        struct http_server *s;

        s = calloc(1, sizeof(*s));
        if (!s)
                return -ENOMEM;
        s->loop = opt->loop;
        s->opt = *opt;
        s->stopped_task.run = on_stopped_task;
        list_init(&s->conns);
        list_init(&s->listeners);
        *ret = s;
        return 0;
}

static void stop_listening(struct http_server *s)
{
        struct list *node;

        while ((node = list_pop_front(&s->listeners))) {
                struct server_listener *l = LIST_ENTRY(node, struct server_listener, node);

                listener_stop(&l->ln);
                free(l);
        }
}

struct http_server *http_server_free(struct http_server *s)
{
        if (!s)
                return NULL;
        stop_listening(s);
        while (!list_is_empty(&s->conns))
                conn_free(LIST_ENTRY(s->conns.next, struct http_conn, node));
        loop_unpost(&s->stopped_task);
        free(s);
        return NULL;
}

static void server_refuse_conn(int fd)
{
        static const char answer[] = "HTTP/1.1 503 Service Unavailable\r\n"
                                     "Content-Type: application/json\r\n"
                                     "Content-Length: 46\r\n"
                                     "Retry-After: 1\r\n"
                                     "Connection: close\r\n\r\n"
                                     "{\"code\":503,\"message\":\"too many connections\"}\n";
        char sink[4096];

        (void)!recv(fd, sink, sizeof(sink), MSG_DONTWAIT); /* unread bytes would turn the close into a reset */
        (void)!send(fd, answer, sizeof(answer) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        close_fd(&fd);
}

static int server_serve_conn(struct http_server *s, int fd)
{
        if (s->opt.conns_max && s->conn_count >= s->opt.conns_max) {
                server_refuse_conn(fd);
                return -ENOBUFS;
        }
        return conn_create(s, fd);
}

static void server_conn_came(struct listener *ln, int fd)
{
        (void)server_serve_conn(ln->arg, fd); /* it closes what it cannot serve */
}

int http_server_listen(struct http_server *s, int fd)
{
        struct server_listener *l;
        int r = -ENOMEM;

        l = calloc(1, sizeof(*l));
        if (l)
                r = listener_start(&l->ln, s->loop, fd, server_conn_came, s);
        if (r < 0) {
                free(l);
                close_fd(&fd);
                return r;
        }
        list_push_back(&s->listeners, &l->node);
        return 0;
}

int http_server_accept(struct http_server *s, int fd)
{
        int flags = fcntl(fd, F_GETFL);

        if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
                int r = -errno;

                close_fd(&fd);
                return r;
        }
        return server_serve_conn(s, fd);
}

void http_server_stop(struct http_server *s, void (*on_done)(void *arg), void *arg)
{
        s->is_stopping = true;
        s->on_stopped = on_done;
        s->stopped_arg = arg;
        stop_listening(s);
        LIST_EACH (node, &s->conns)
                conn_close_if_idle(LIST_ENTRY(node, struct http_conn, node));
        if (s->conn_count == 0)
                loop_post(s->loop, &s->stopped_task);
}

void http_server_cut_others(const struct http_request *rq)
{
        LIST_EACH (node, &rq->server->conns) {
                struct http_conn *c = LIST_ENTRY(node, struct http_conn, node);

                if (c != rq->conn)
                        conn_cut(c);
        }
}

void server_conn_gone(struct http_server *s)
{
        s->conn_count--;
        if (s->is_stopping && s->conn_count == 0)
                loop_post(s->loop, &s->stopped_task);
}

size_t http_server_conn_count(const struct http_server *s)
{
        return s->conn_count;
}

const char *server_date(struct http_server *s)
{
        time_t now = (time_t)(clock_real_ms() / 1000);
        struct tm tm;

        if (now != s->date_s) {
                (void)gmtime_r(&now, &tm);
                (void)strftime(s->date, sizeof(s->date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
                s->date_s = now;
        }
        return s->date;
}
