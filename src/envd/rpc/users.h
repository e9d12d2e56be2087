/* users.h - users and groups of the image, read from its /etc/passwd and /etc/group (no NSS: we are linked statically).
 *
 * The files are read anew for each request: useradd in the sandbox takes effect at once. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/str.h"

#define USER_GROUPS_MAX 64
#define USERS_FILE_MAX (4u << 20)

struct user {
        char *name, *home; /* owned */
        uid_t uid;
        gid_t gid;
        gid_t groups[USER_GROUPS_MAX]; /* the primary one first */
        size_t group_count;
};

void user_done(struct user *u);
#define AUTO_USER AUTO(user_done)

/* The text of both files. */
struct users {
        struct buf passwd, group;
};
void users_init(struct users *us);
void users_done(struct users *us);
#define AUTO_USERS AUTO(users_done)
/* Read the files; a missing file counts as empty.  Negative errno for other failures. */
int users_load(struct users *us);

/* 0; -ENOENT no such user; -ENOMEM.  On success *ret is the caller's. */
int users_find(const struct users *us, struct str name, struct user *ret);
/* The name of an id, or an empty string. */
struct str users_name(const struct users *us, uid_t uid);
struct str users_group_name(const struct users *us, gid_t gid);
int users_group_id(const struct users *us, struct str name, gid_t *ret); /* -ENOENT */

/* users_load() and users_find() in one. */
int user_lookup(const char *name, struct user *ret);
