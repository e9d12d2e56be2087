/* configure.h - the last touches of a template: what every sandbox of it can rely on, whatever image it came from.
 *
 * Nothing is written that is so already: each change of a file of an older layer would copy the file. */
#pragma once
#include <stdbool.h>

struct err;

/* /.e2b names template and build; the user "user" is there, with a home, its groups and sudo; /usr/local and /code are open
 * to everybody.  *ret_changed: something had to be written besides /.e2b. */
int configure_template(const char *template_id, const char *build_id, bool *ret_changed, struct err *err);

/* Where the image has sudo: the user needs no password for it.  In the group sudo or wheel, if there is one. */
int configure_sudo(const char *user, bool *ret_changed, struct err *err);
