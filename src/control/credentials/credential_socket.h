/* credential_socket.h - how the role agent gets the credentials for a sandbox that it makes.
 *
 * HTTP/1.1 on the Unix socket <data>/run/credentials.sock.  Only the user of the role agent can open it, and the kernel says who a
 * peer is (SO_PEERCRED).  GET /credentials with the client's own key in X-API-Key answers what credentials_unfold() says, or
 * {"code","message"}: 401 for a key that is none, 503 when a stored credential cannot be decrypted.  Nothing is cached. */
#pragma once
#include <stdint.h>

#include "io/listener.h"

struct credentials;
struct err;
struct http_server;
struct keys;

struct credential_socket {
        struct listener listener;
        const struct credentials *credentials; /* borrowed, as the next */
        const struct keys *keys;
        uint32_t uid;             /* of the only user who may connect */
        struct http_server *http; /* owned */
};

/* fd: the listening socket; taken; -1: there is none, and nobody is served. */
int credential_socket_open(struct credential_socket *s, struct loop *loop, int fd, struct err *err);
void credential_socket_close(struct credential_socket *s); /* also zeroed */
