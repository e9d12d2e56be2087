/* secret_key.h - the file <data>/secret-key: what credentials in the store are encrypted with (io/secret_box.h).
 *
 * Root's own (0600), made at the first start, and never part of the store: a copy of the store alone shows no credential. */
#pragma once

struct conf;
struct err;

/* Make the file if there is none, and look at the one that is there.  A disk without room for it is no failure: there is a warning,
 * and no credentials until a later start.  ERR_INVALID: it is damaged; the message says what to do. */
int secret_key_ensure(const struct conf *c, struct err *err);
int secret_key_open(const struct conf *c, int *ret_fd, struct err *err); /* *ret_fd -1: there is none */
