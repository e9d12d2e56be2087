#include "serve/supervisor/sockets.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "io/listener.h"

void sockets_init(struct sockets *s)
{
        *s = (struct sockets){.api = -1,
                              .routes = -1,
                              .engine = -1,
                              .dial = -1,
                              .builder = -1,
                              .puller = -1,
                              .credentials = -1,
                              .users = -1,
                              .agent = -1,
                              .clients = -1};
        for (size_t i = 0; i < CONF_EDGES_MAX; i++)
                s->http[i] = s->https[i] = -1;
}

static int listen_or_say(const char *addr, bool reuse_port, const char *option, int *ret, struct err *err)
{
        int r = listen_tcp(str_of(addr), reuse_port, ret, err);

        if (r < 0 && err->kind == ERR_CONFLICT)
                return err_set(err, ERR_CONFLICT, "port already in use: %s (choose another with %s ADDR:PORT)", addr,
                               option);
        return r;
}

/* A first socket without SO_REUSEPORT: it fails when anybody listens there, even a server of ours that would share. */
static int port_is_free(const char *addr, const char *option, struct err *err)
{
        AUTO_CLOSE int fd = -1;

        return listen_or_say(addr, false, option, &fd, err);
}

static int open_group(const char *addr, const char *option, int *fds, size_t n, uint16_t *ret_port, struct err *err)
{
        AUTO_FREE char *real = NULL;
        struct str host;
        uint16_t port;
        int r;

        r = port_is_free(addr, option, err);
        if (r == 0)
                r = listen_or_say(addr, true, option, &fds[0], err);
        if (r == 0)
                r = socket_port(fds[0], &port);
        if (r < 0)
                return r;
        if (conf_split_address(str_of(addr), &host, &(uint16_t){0}) < 0 ||
            asprintf(&real, "%.*s:%u", STR_ARG(host), port) < 0)
                return err_set(err, ERR_INVALID, "%s: '%s' is not ADDRESS:PORT", option, addr);
        for (size_t i = 1; r == 0 && i < n; i++)
                r = listen_or_say(real, true, option, &fds[i], err);
        *ret_port = port;
        return r;
}

int sockets_open_tcp(struct sockets *s, const struct conf *c, size_t edges, struct err *err)
{
        int r;

        s->edges = edges;
        r = open_group(c->listen, "--listen", s->http, edges, &s->http_port, err);
        if (r == 0)
                r = open_group(c->tls_listen, "--tls-listen", s->https, edges, &s->https_port, err);
        return r;
}

static int open_unix(const struct conf *c, const char *below, unsigned mode, uint32_t uid, uint32_t gid, int *ret,
                     struct err *err)
{
        AUTO_FREE char *path = conf_path(c, below);
        int r;

        if (!path)
                return err_set(err, ERR_LIMIT, "out of memory");
        r = listen_unix(path, mode, ret, err);
        if (r == 0 && lchown(path, uid, gid) < 0)
                r = err_sys(err, -errno, "change the owner of '%s'", path);
        return r;
}

/* Root's, and of the group: nobody else gets in. */
static int open_users(struct sockets *s, const struct conf *c, const uint32_t *gid, struct err *err)
{
        AUTO_FREE char *path = conf_path(c, "run/users.sock");

        if (gid)
                return open_unix(c, "run/users.sock", 0660, 0, *gid, &s->users, err);
        if (path)
                (void)unlink(path); /* of a start with other settings */
        return 0;
}

int sockets_open_unix(struct sockets *s, const struct conf *c, const uint32_t *users_gid, struct err *err)
{
        int r;

        r = open_unix(c, "run/api.sock", 0660, c->control_uid, c->edge_uid, &s->api, err);
        if (r == 0)
                r = open_unix(c, "run/routes.sock", 0660, c->control_uid, c->edge_uid, &s->routes, err);
        if (r == 0)
                r = open_unix(c, "run/engine.sock", 0600, c->control_uid, c->control_uid, &s->engine, err);
        if (r == 0)
                r = open_unix(c, "run/dial.sock", 0600, c->edge_uid, c->edge_uid, &s->dial, err);
        if (r == 0)
                r = open_unix(c, "run/builder.sock", 0600, c->control_uid, c->control_uid, &s->builder, err);
        if (r == 0)
                r = open_unix(c, "run/puller.sock", 0600, c->control_uid, c->control_uid, &s->puller, err);
        if (r == 0)
                r = open_unix(c, "run/agent.sock", 0660, c->agent_uid, c->edge_uid, &s->agent, err);
        if (r == 0)
                r = open_unix(c, "run/clients.sock", 0660, c->edge_uid, c->agent_uid, &s->clients, err);
        if (r == 0)
                r = open_unix(c, "run/credentials.sock", 0660, c->control_uid, c->agent_uid, &s->credentials, err);
        if (r == 0)
                r = open_users(s, c, users_gid, err);
        return r;
}

void sockets_done(struct sockets *s)
{
        for (size_t i = 0; i < s->edges; i++) {
                close_fd(&s->http[i]);
                close_fd(&s->https[i]);
        }
        close_fd(&s->api);
        close_fd(&s->routes);
        close_fd(&s->engine);
        close_fd(&s->dial);
        close_fd(&s->builder);
        close_fd(&s->puller);
        close_fd(&s->credentials);
        close_fd(&s->users);
        close_fd(&s->agent);
        close_fd(&s->clients);
}
