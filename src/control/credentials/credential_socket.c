#include "control/credentials/credential_socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "control/access/keys.h"
#include "control/credentials/credentials.h"
#include "http/server.h"
#include "model/credential/credential.h"

#define CONNS_MAX 256
#define HEAD_MS 10000u

static void answer_credentials(struct http_request *rq, const struct credential_socket *s, const struct api_key *key)
{
        struct err err = {0};
        json_t *answer = NULL;
        char *text;

        if (credentials_unfold(s->credentials, key, &answer, &err) < 0) {
                log_error("credentials.unreadable", "team=%s key=%s reason=\"%s\"", key->team->slug, key->id, err.msg);
                http_reply_error(rq, 503, "%s", err.msg);
                return;
        }
        text = json_dumps(answer, JSON_COMPACT);
        credential_free(answer);
        if (!text) {
                http_reply_error(rq, 503, "out of memory");
                return;
        }
        http_keep_secret(rq);
        http_reply(rq, 200, "application/json", NULL, text, strlen(text));
        explicit_bzero(text, strlen(text));
        free(text);
}

static void socket_on_request(struct http_request *rq, void *arg)
{
        const struct credential_socket *s = arg;
        const struct http1_header *h = http1_find(rq->head, "X-API-Key");
        const struct api_key *key = h ? keys_find(s->keys, h->value) : NULL;

        if (!str_is(rq->head->method, "GET") || !str_is(rq->url.path, "/credentials"))
                http_reply_error(rq, 404, "only GET /credentials is served here");
        else if (!key)
                http_reply_error(rq, 401, "Invalid API key.");
        else
                answer_credentials(rq, s, key);
}

static void socket_on_conn(struct listener *ln, int fd)
{
        const struct credential_socket *s = CONTAINER_OF(ln, struct credential_socket, listener);
        struct ucred peer = {.uid = UINT32_MAX};
        socklen_t n = sizeof(peer);
        AUTO_CLOSE int peer_fd = fd;

        if (getsockopt(peer_fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0 || peer.uid != s->uid)
                log_warn("credentials.peer", "uid=%u, refused: only the role agent may connect", peer.uid);
        else if (http_server_accept(s->http, TAKE_FD(peer_fd)) < 0)
                log_warn("credentials.peer", "failed=\"too many connections, or out of memory\"");
}

int credential_socket_open(struct credential_socket *s, struct loop *loop, int fd, struct err *err)
{
        const struct http_server_options opt = {.loop = loop,
                                                .on_request = socket_on_request,
                                                .arg = s,
                                                .head_timeout_ms = HEAD_MS,
                                                .conns_max = CONNS_MAX};
        int r;

        if (fd < 0)
                return 0;
        r = http_server_create(&opt, &s->http);
        if (r == 0)
                r = listener_start(&s->listener, loop, fd, socket_on_conn, NULL);
        return r < 0 ? err_sys(err, r, "listen for the role agent") : 0;
}

void credential_socket_close(struct credential_socket *s)
{
        listener_stop(&s->listener);
        s->http = http_server_free(s->http);
}
