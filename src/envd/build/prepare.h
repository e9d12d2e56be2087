/* prepare.h - what steps of a build change in a sandbox besides running commands: users and directories. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

struct err;
struct user;

#define PREPARE_NAME_MAX 64

/* The user that USER names: "name", "1000", either with ":group" (which is not used).  Made where there is none.  The
 * name that the user has in /etc/passwd goes to name. */
int prepare_user(const char *given, char name[PREPARE_NAME_MAX], bool *ret_created, struct err *err);
/* Directories that are missing are made, and given to the user. */
int prepare_workdir(const char *path, const struct user *owner, bool *ret_created, struct err *err);

/* user_add.c: useradd of the image, or adduser of busybox, or else the files are written here.  uid NULL: the next one.
 * The user gets a home with the files of /etc/skel. */
int user_add(const char *name, const char *uid, struct err *err);
/* Copy what is in /etc/skel, and is not there yet, to the home; everything becomes the owner's. */
int user_fill_home(const struct user *owner, struct err *err);
