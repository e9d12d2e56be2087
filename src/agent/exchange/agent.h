/* agent.h - what all requests of the role share. */
#pragma once
#include <stddef.h>

#include "base/list.h"
#include "io/loop.h"

struct conf;
struct http_client;
struct http_server;

struct agent {
        const struct conf *conf;  /* borrowed */
        struct loop *loop;        /* owned */
        struct http_server *http; /* owned: connections of the edges */
        /* Owned: the edges' clients.sock, for requests that end soon and for those that may take as long as they take. */
        struct http_client *edge, *edge_patient;
        struct http_client *credentials; /* owned: control's credentials.sock */
        char *credentials_path;          /* owned; of that socket */
        struct list exchanges;           /* struct exchange: all that are under way */
        struct list orphans;             /* struct ask, owned: requests whose exchange has ended */
        struct list kills;               /* struct sandbox_kill, owned: sandbox_kill.h */
        size_t body_bytes;               /* kept of bodies, files and answers (budget.h) */
        size_t output_bytes;             /* of all commands, until the client has the answer (the same) */
        struct timer idle;
        struct timer stop;
        bool is_stopping;
};
