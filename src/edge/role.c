#include "edge/role.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/err.h"
#include "base/log.h"
#include "edge/certificate.h"
#include "edge/http1/h1_conn.h"
#include "edge/http2/h2_session.h"
#include "edge/proxy/client_conn.h"
#include "edge/proxy/edge.h"
#include "edge/route/dial.h"
#include "edge/route/routes.h"
#include "edge/route/upstream.h"

#define OUT_MAX (56u << 10) /* a head to be written: the one that came in, and a few lines more */
#define FDS_SPARE 256u      /* for everything but clients */

static void edge_accept(struct edge *e, int fd, struct tls_context *tls, enum h1_conn_from from)
{
        if (e->client_count >= e->clients_max)
                client_conn_refuse(fd, tls != NULL);
        else
                h1_conn_create(e, fd, tls, from);
}

static void edge_accept_http(struct listener *ln, int fd)
{
        edge_accept(ln->arg, fd, NULL, FROM_NETWORK);
}

static void edge_accept_https(struct listener *ln, int fd)
{
        struct edge *e = ln->arg;

        edge_accept(e, fd, e->tls, FROM_NETWORK);
}

static void edge_accept_local(struct listener *ln, int fd)
{
        edge_accept(ln->arg, fd, NULL, FROM_CLIENTS_SOCKET);
}

/* Keepalive probes find clients whose machine vanished, since exchanges have no time limit; accepted sockets inherit the
 * options. */
static void watch_peers(int fd)
{
        const int on = 1, idle_s = 60, every_s = 15, probes = 4;

        (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
        (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
        (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof(every_s));
        (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

static int edge_listen(struct edge *e, struct listener *ln, int fd, void (*on_conn)(struct listener *, int),
                       struct err *err)
{
        int r;

        watch_peers(fd);
        r = listener_start(ln, e->loop, fd, on_conn, e);
        return r < 0 ? err_sys(err, r, "listen on fd %d", fd) : 0;
}

static void edge_cut_all(struct edge *e)
{
        LIST_EACH (node, &e->conns) {
                struct client_conn *n = LIST_ENTRY(node, struct client_conn, node);

                n->ops->cut(n);
        }
}

static void edge_on_stop_timer(struct timer *t)
{
        struct edge *e = CONTAINER_OF(t, struct edge, stop_timer);

        log_info("edge.cut", "connections=%zu", e->client_count);
        edge_cut_all(e);
        loop_stop(e->loop);
}

static void edge_on_signal(int signo, void *arg)
{
        struct edge *e = arg;

        (void)signo;
        if (e->is_stopping)
                return;
        log_info("edge.stopping", "connections=%zu", e->client_count);
        e->is_stopping = e->upstreams.is_closing = true;
        listener_stop(&e->http);
        listener_stop(&e->https);
        listener_stop(&e->clients);
        timer_set(e->loop, &e->stop_timer, e->limits->stop_timeout_ms);
        LIST_EACH (node, &e->conns) {
                struct client_conn *n = LIST_ENTRY(node, struct client_conn, node);

                n->ops->stop(n);
        }
        edge_check_stopped(e);
}

/* As many fds as the process may have; two for each client. */
static size_t raise_fd_limit(size_t wanted)
{
        struct rlimit lim;
        size_t most;

        if (getrlimit(RLIMIT_NOFILE, &lim) < 0)
                return 256;
        lim.rlim_cur = lim.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &lim);
        (void)getrlimit(RLIMIT_NOFILE, &lim);
        most = lim.rlim_cur > 2 * FDS_SPARE ? (size_t)(lim.rlim_cur - FDS_SPARE) / 2 : 128;
        return most < wanted ? most : wanted;
}

static int edge_start(struct edge *e, struct err *err)
{
        static const int signals[] = {SIGTERM, SIGINT, 0};
        int r;

        r = loop_create(&e->loop);
        if (r == 0)
                r = loop_signals(e->loop, signals, edge_on_signal, e);
        if (r < 0)
                return err_sys(err, r, "event loop");
        e->api_path = conf_path(e->conf, "run/api.sock");
        e->agent_path = conf_path(e->conf, "run/agent.sock");
        e->h2 = h2_setup_create(e);
        if (!e->api_path || !e->agent_path || !e->h2)
                return err_sys(err, -ENOMEM, "edge");
        e->clients_max = raise_fd_limit(e->limits->clients_max);
        e->stop_timer.on = edge_on_stop_timer;
        upstream_pool_init(&e->upstreams,
                           &(struct upstream_pool_options){
                                   .loop = e->loop,
                                   .limits = e->limits,
                                   .blocks = &e->blocks,
                                   .role_paths = {[UPSTREAM_CONTROL] = e->api_path, [UPSTREAM_AGENT] = e->agent_path}});
        if (e->conf->fds.https >= 0) {
                r = edge_certificate_start(e, err);
                if (r < 0)
                        return r;
        }
        r = routes_start(&e->routes, e->loop, e->conf, e->limits);
        if (r == 0)
                r = dial_start(&e->dialler, e->loop, e->conf, e->limits->dials_max);
        if (r < 0)
                return err_sys(err, r, "edge");
        if (e->conf->fds.http >= 0)
                r = edge_listen(e, &e->http, e->conf->fds.http, edge_accept_http, err);
        if (r == 0 && e->conf->fds.https >= 0)
                r = edge_listen(e, &e->https, e->conf->fds.https, edge_accept_https, err);
        if (r == 0 && e->conf->fds.clients >= 0)
                r = edge_listen(e, &e->clients, e->conf->fds.clients, edge_accept_local, err);
        return r;
}

static void edge_on_last(struct task *t)
{
        loop_stop(CONTAINER_OF(t, struct edge, last)->loop);
}

static void edge_end(struct edge *e)
{
        edge_cut_all(e);
        if (!e->loop)
                return;
        listener_stop(&e->http);
        listener_stop(&e->https);
        listener_stop(&e->clients);
        if (e->routes.lru.next)
                routes_done(&e->routes);
        if (e->dialler.waiting.next)
                dial_done(&e->dialler);
        if (e->upstreams.idle_lru.next)
                upstream_pool_done(&e->upstreams);
        timer_clear(&e->stop_timer);
        e->last.run = edge_on_last;
        loop_post(e->loop, &e->last); /* behind the tasks that free what was just ended */
        (void)loop_run(e->loop);
        block_pool_done(&e->blocks);
        splice_pool_done(&e->splices);
        buf_done(&e->out);
        free(e->api_path);
        free(e->agent_path);
        e->h2 = h2_setup_free(e->h2);
        edge_certificate_done(e);
        e->loop = loop_free(e->loop);
}

int edge_run(const struct conf *conf, const struct edge_limits *limits)
{
        struct edge *e = calloc(1, sizeof(*e));
        struct err err = {0};
        int r;

        if (!e) {
                log_error("edge.failed", "error=\"out of memory\"");
                return 1;
        }
        e->conf = conf;
        e->limits = limits;
        e->is_logging = conf->access_log || (conf->log_level && strcmp(conf->log_level, "debug") == 0);
        list_init(&e->conns);
        buf_init(&e->out, OUT_MAX);
        r = edge_start(e, &err);
        if (r < 0) {
                log_error("edge.failed", "error=\"%s\"", err.msg);
        } else {
                log_info("edge.ready", "clients_max=%zu", e->clients_max);
                r = loop_run(e->loop);
                if (r < 0)
                        log_error("edge.failed", "errno=%d", -r);
        }
        edge_end(e);
        free(e);
        return r < 0 ? 1 : 0;
}

int edge_main(const struct conf *conf)
{
        return edge_run(conf, &edge_limits_default);
}
