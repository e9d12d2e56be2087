/* secret_box.h - small secrets encrypted for the disk: AES-256-GCM, with keys that lie somewhere else.
 *
 * What is sealed is bound to a place (`bound`: which team, which name): it can be opened only for the same place, so nobody who
 * can write to the disk can exchange two of them.  Each says which key it was sealed with; a random nonce is part of it.
 * Layout: version (1), key id (8), nonce (12), ciphertext, tag (16).  Pure, but for randomness. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define SECRET_KEY_LEN 32
#define SECRET_KEY_ID_LEN 8
#define SECRET_KEYS_MAX 8
#define SECRET_BOX_EXTRA (1 + SECRET_KEY_ID_LEN + 12 + 16) /* bytes more than the secret has */

/* The first one seals, all open. */
struct secret_keys {
        struct secret_key {
                uint8_t key[SECRET_KEY_LEN];
                uint8_t id[SECRET_KEY_ID_LEN]; /* follows from the key, and tells nothing about it */
        } all[SECRET_KEYS_MAX];
        size_t count;
};

/* As a file has them: a key per line, 64 hexadecimal digits; blank lines and those that begin with # do not count.
 * -EBADMSG: something else, or none, or more than SECRET_KEYS_MAX; *ret is zeroed then.  -ENOMEM. */
int secret_keys_parse(struct str text, struct secret_keys *ret);
void secret_keys_done(struct secret_keys *k); /* forgets them; also zeroed */

/* A new key as a line of such a file, with its line end. */
#define SECRET_KEY_LINE_MAX (2 * SECRET_KEY_LEN + 2)
void secret_key_make(char out[SECRET_KEY_LINE_MAX]);

/* `out` has room for secret.n + SECRET_BOX_EXTRA.  -ENOKEY: there are no keys.  -ENOMEM. */
int secret_box_seal(const struct secret_keys *k, struct str bound, struct str secret, uint8_t *out);
/* `out` has room for sealed.n - SECRET_BOX_EXTRA (the secret's length).  -ENOKEY: sealed with another key.  -EBADMSG: changed, or
 * of another place, or no such thing at all; `out` is zeroed then.  -ENOMEM. */
int secret_box_open(const struct secret_keys *k, struct str bound, struct str sealed, uint8_t *out);

enum secret_box_key { SECRET_BOX_NEWEST, SECRET_BOX_OLDER, SECRET_BOX_UNKNOWN };
enum secret_box_key secret_box_key(const struct secret_keys *k,
                                   struct str sealed); /* which of them it was sealed with */
