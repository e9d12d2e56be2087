/* user_door.h - how users of the machine who are not root get their API key.
 *
 * The supervisor makes the Unix socket <data>/run/users.sock.  Its owner is root, its group the one of the setting `group`,
 * its mode 0660: the kernel lets only members connect, and says which user a peer is (SO_PEERCRED).  Each connection gets
 * one answer and is closed; nothing that the peer sends is read.  The answer is what <data>/env has, but with the user's own
 * key; or one line "# reason" when there is no key for the user. */
#pragma once
#include <stdint.h>

#include "io/listener.h"

struct conf;
struct err;
struct keys;
struct tokens;

struct user_door {
        struct listener listener;
        const struct conf *conf; /* borrowed, as all below */
        struct keys *keys;
        const struct tokens *tokens;
};

/* Takes the listening socket conf->fds.users; nothing when there is none. */
int user_door_open(struct user_door *d, struct loop *loop, struct err *err);
void user_door_close(struct user_door *d); /* also zeroed */

/* What is answered to a user; room for it is ENVFILE_MAX. */
struct buf;
int user_door_answer(const struct user_door *d, uint32_t uid, struct buf *out); /* -ENOMEM, -E2BIG */
