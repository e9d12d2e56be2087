#include "control/access/user_door.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "control/access/keys.h"
#include "control/access/tokens.h"
#include "model/conf.h"
#include "model/envfile.h"

#define OVERFLOW_UID 65534u /* "nobody": also how the kernel shows users that have no number here */

static bool is_a_user(const struct conf *c, uint32_t uid)
{
        return uid != OVERFLOW_UID && uid != UINT32_MAX && uid != c->control_uid && uid != c->edge_uid &&
               uid != c->builder_uid && uid != c->puller_uid && uid != c->agent_uid;
}

int user_door_answer(const struct user_door *d, uint32_t uid, struct buf *out)
{
        struct err err = {0};
        char key[KEY_LEN + 1];
        int r;

        if (!is_a_user(d->conf, uid))
                return buf_addf(out, "# user %u is nobody's own: there is no key for it\n", uid);
        if (keys_of_user(d->keys, d->tokens, uid, key, &err) < 0) {
                log_warn("key.user", "uid=%u failed=\"%s\"", uid, err.msg);
                return buf_addf(out, "# the server could not make a key: %s\n", err.msg);
        }
        r = buf_addc(out, d->conf->exports ? d->conf->exports : "");
        return r < 0 ? r : envfile_format(&(struct envfile){.api_key = key}, out);
}

/* A new connection takes more bytes at once than an answer has. */
static void door_on_conn(struct listener *ln, int fd)
{
        const struct user_door *d = CONTAINER_OF(ln, struct user_door, listener);
        AUTO_BUF struct buf answer = BUF_INIT(ENVFILE_MAX);
        AUTO_CLOSE int peer_fd = fd;
        struct ucred peer = {.uid = UINT32_MAX};
        socklen_t n = sizeof(peer);

        if (getsockopt(peer_fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0)
                log_warn("key.user", "errno=%d, the peer is not known", errno);
        else if (user_door_answer(d, peer.uid, &answer) < 0)
                log_warn("key.user", "uid=%u failed=\"out of memory\"", peer.uid);
        else if (send(peer_fd, buf_at(&answer), answer.len, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)answer.len)
                log_debug("key.user", "uid=%u errno=%d, the answer was not taken", peer.uid, errno);
}

int user_door_open(struct user_door *d, struct loop *loop, struct err *err)
{
        int r;

        if (d->conf->fds.users < 0)
                return 0;
        r = listener_start(&d->listener, loop, d->conf->fds.users, door_on_conn, NULL);
        return r < 0 ? err_sys(err, r, "listen for users") : 0;
}

void user_door_close(struct user_door *d)
{
        listener_stop(&d->listener);
}
