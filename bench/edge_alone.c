/* edge_alone.c - one edge process without the rest of the server: every sandbox id is known, every dial is answered with
 * a connection to PORT of 127.0.0.1.  Prints its port, its process and its TLS port, then serves until its standard input
 * ends.
 *
 *   edge_alone PORT
 *
 * For comparing the edge with other proxies on equal terms; see bench/proxy. */
#include <err.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/log.h"
#include "edge/role.h"
#include "io/channel.h"
#include "io/listener.h"
#include "io/loop.h"
#include "io/tls.h"
#include "model/conf.h"

struct world {
        struct loop *loop;
        struct listener routes, dial;
        struct io input;
        uint16_t port;
        char dir[64];
};

static int connect_to(uint16_t port)
{
        struct sockaddr_in at = {
                .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
                close_fd(&fd);
        if (fd >= 0)
                (void)fcntl(fd, F_SETFL, O_NONBLOCK);
        return fd;
}

static json_t *refusal(const json_t *msg, const char *kind)
{
        return json_pack("{s:O, s:{s:s, s:s}}", "req", json_object_get(msg, "req"), "error", "kind", kind, "message",
                         kind);
}

static void on_route(struct channel *ch, json_t *msg, int *fds, size_t nfds, void *arg)
{
        (void)fds;
        (void)nfds;
        (void)arg;
        (void)channel_send(ch,
                           json_pack("{s:O, s:b, s:{s:O, s:s}}", "req", json_object_get(msg, "req"), "ok", 1, "route",
                                     "id", json_object_get(msg, "id"), "state", "running"),
                           NULL, 0);
}

static void on_dial(struct channel *ch, json_t *msg, int *fds, size_t nfds, void *arg)
{
        struct world *w = arg;
        AUTO_CLOSE int fd = connect_to(w->port);

        (void)fds;
        (void)nfds;
        if (fd < 0)
                (void)channel_send(ch, refusal(msg, "unavailable"), NULL, 0);
        else
                (void)channel_send(ch, json_pack("{s:O, s:b}", "req", json_object_get(msg, "req"), "ok", 1), &fd, 1);
}

static void on_close(struct channel *ch, const char *reason, void *arg)
{
        (void)reason;
        (void)arg;
        (void)channel_free(ch);
}

static void on_routes_conn(struct listener *ln, int fd)
{
        static const struct channel_ops ops = {.on_message = on_route, .on_close = on_close};
        struct world *w = ln->arg;
        struct channel *ch;

        (void)channel_create(w->loop, fd, &ops, w, &ch);
}

static void on_dial_conn(struct listener *ln, int fd)
{
        static const struct channel_ops ops = {.on_message = on_dial, .on_close = on_close};
        struct world *w = ln->arg;
        struct channel *ch;

        (void)channel_create(w->loop, fd, &ops, w, &ch);
}

static void on_input(struct io *io, uint32_t events)
{
        char skip[64];

        (void)events;
        if (read(io->fd, skip, sizeof(skip)) <= 0)
                loop_stop(io->loop);
}

static int open_below(const struct world *w, const char *name)
{
        char path[128];

        (void)snprintf(path, sizeof(path), "%s/%s", w->dir, name);
        return open(path, O_RDONLY | O_CLOEXEC);
}

static int run_edge(const struct world *w, int http, int https)
{
        char data[64], domain[] = "box.test", level[] = "warn";
        struct conf conf = {.data_dir = data, .domain = domain, .log_level = level};

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)snprintf(data, sizeof(data), "%s", w->dir);
        (void)memset(&conf.fds, 0xff, sizeof(conf.fds)); /* each is -1: none */
        conf.fds.http = http;
        conf.fds.https = https;
        conf.fds.tls_cert = open_below(w, "ca/cert.pem");
        conf.fds.tls_key = open_below(w, "ca/key.pem");
        log_setup("edge", LOG_WARN);
        return edge_main(&conf);
}

static void listen_below(struct world *w, const char *name, struct listener *ln,
                         void (*on_conn)(struct listener *, int))
{
        char path[128];
        struct err e = {0};
        int fd;

        (void)snprintf(path, sizeof(path), "%s/run/%s", w->dir, name);
        if (listen_unix(path, 0600, &fd, &e) < 0 || listener_start(ln, w->loop, fd, on_conn, w) < 0)
                errx(1, "%s: %s", path, e.msg);
}

static void remove_places(const struct world *w)
{
        static const char *const names[] = {"run/routes.sock", "run/dial.sock", "ca/ca.pem",
                                            "ca/ca.key",       "ca/cert.pem",   "ca/key.pem"};
        char path[128];

        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                (void)snprintf(path, sizeof(path), "%s/%s", w->dir, names[i]);
                (void)unlink(path);
        }
        (void)snprintf(path, sizeof(path), "%s/run", w->dir);
        (void)rmdir(path);
        (void)snprintf(path, sizeof(path), "%s/ca", w->dir);
        (void)rmdir(path);
        (void)rmdir(w->dir);
}

int main(int argc, char **argv)
{
        struct world w = {.dir = "/tmp/edge-alone-XXXXXX"};
        char run[80], ca[80];
        struct err e = {0};
        uint16_t own, own_tls;
        uint32_t port;
        int http, https, status;
        pid_t edge;

        if (argc != 2 || parse_u32(str_of(argv[1]), 1, 65535, &port) < 0)
                errx(2, "usage: edge_alone PORT");
        w.port = (uint16_t)port;
        if (!mkdtemp(w.dir) || loop_create(&w.loop) < 0)
                err(1, "%s", w.dir);
        (void)snprintf(run, sizeof(run), "%s/run", w.dir);
        if (mkdir(run, 0700) < 0)
                err(1, "%s", run);
        (void)snprintf(ca, sizeof(ca), "%s/ca", w.dir);
        if (mkdir(ca, 0700) < 0 || tls_local_ca(ca, "box.test", &e) < 0)
                errx(1, "%s: %s", ca, e.msg);
        listen_below(&w, "routes.sock", &w.routes, on_routes_conn);
        listen_below(&w, "dial.sock", &w.dial, on_dial_conn);
        if (listen_tcp(STR("127.0.0.1:0"), true, &http, &e) < 0 || socket_port(http, &own) < 0 ||
            listen_tcp(STR("127.0.0.1:0"), true, &https, &e) < 0 || socket_port(https, &own_tls) < 0)
                errx(1, "%s", e.msg);
        edge = fork();
        if (edge == 0)
                exit(run_edge(&w, http, https));
        close_fd(&http);
        close_fd(&https);
        printf("%u %d %u\n", own, (int)edge, own_tls);
        (void)fflush(stdout);
        w.input = (struct io){.fd = STDIN_FILENO, .on = on_input};
        (void)loop_add(w.loop, &w.input, EPOLLIN);
        (void)loop_run(w.loop);
        (void)kill(edge, SIGTERM);
        (void)waitpid(edge, &status, 0);
        remove_places(&w);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
