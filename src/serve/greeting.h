/* greeting.h - <data>/env, the lines printed when the server is ready, and the first sandbox as a self-check. */
#pragma once
#include <stdint.h>
#include <sys/types.h>

#include "model/envfile.h"

struct conf;
struct err;
struct sockets;

struct greeting {
        struct envfile env;
        int output; /* memfd: what the self-check printed */
        uint64_t check_ms;
        uint16_t http_port, https_port; /* the real ones */
};

/* Addresses from the real ports; the key from an earlier <data>/env when there is one. */
int greeting_init(struct greeting *g, const struct conf *c, const struct sockets *s, struct err *err);
/* What clients other than the operator get, besides a key of their own; *ret is malloc'd. */
int greeting_exports(const struct greeting *g, char **ret, struct err *err);
/* The server answers: take over the first key, write <data>/env, say so. */
int greeting_ready(struct greeting *g, const struct conf *c, struct err *err);
/* Tell the service manager, in systemd's protocol: READY=1 to the datagram socket `path` ("@..." is abstract). */
void greeting_notify(const char *path);
/* `sandglass run` against ourselves; greeting_check_end() judges it and prints how to go on. */
int greeting_check_start(struct greeting *g, const struct conf *c, pid_t *ret_pid, struct err *err);
int greeting_check_end(struct greeting *g, int status, struct err *err);
void greeting_done(struct greeting *g);
