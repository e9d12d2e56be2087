/* member.h - a user who is not root, and a server on this machine: the server knows the user by its Unix socket run/users.sock,
 * and gives each member of its group a key (control/access/user_door.h). */
#pragma once

struct envfile;
struct err;

/* What the server tells this user.  On success *ret is the caller's.  ERR_DENIED: the user is not a member, or the server has
 * no group for users; the message says how to become one. */
int member_exports(const char *data_dir, struct envfile *ret, struct err *err);
