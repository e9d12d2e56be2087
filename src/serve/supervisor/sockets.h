/* sockets.h - every listening socket of the server, held by the supervisor so that roles can come and go. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "model/conf.h"

struct err;

struct sockets {
        int http[CONF_EDGES_MAX], https[CONF_EDGES_MAX]; /* one pair for each edge */
        size_t edges;
        uint16_t http_port, https_port; /* the real ones, also when 0 was asked for */
        int api, routes, engine, dial;
        int builder, puller, agent; /* of roles that are started when somebody connects */
        int clients;                /* of the edges, for the role agent */
        int credentials;            /* of control, for the role agent */
        int users;                  /* -1: there is no group whose members get keys */
};

/* Nothing open: fit for sockets_done(). */
void sockets_init(struct sockets *s);
/* ERR_CONFLICT "port already in use" when anybody else listens there. */
int sockets_open_tcp(struct sockets *s, const struct conf *c, size_t edges, struct err *err);
/* users_gid: who may connect to run/users.sock; NULL: nobody, and there is no such socket. */
int sockets_open_unix(struct sockets *s, const struct conf *c, const uint32_t *users_gid, struct err *err);
void sockets_done(struct sockets *s);
