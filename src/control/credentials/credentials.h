/* credentials.h - the credentials that sandboxes for agents get: of a team, and of the users whose keys are its.
 *
 * The store has them encrypted (io/secret_box.h); the keys for that are in <data>/secret-key, which only root can read, and reach
 * control as a file descriptor.  Each is bound to its team, user and name.  Between requests no value is kept in plain text: buffers
 * of requests and answers, texts and JSON that had one are blanked before they are released (http_keep_secret(), json_blank.h).  The
 * edge passes requests on in buffers that are not.  Nothing that is logged or said in an error has any of a value.
 *
 * Users: the holder of a key that the operator made is the user of that key alone, and their credentials go when the key is
 * revoked.  A user of the machine (user_door.h) is the same whatever key they have.  So is the operator. */
#pragma once
#include <jansson.h>
#include <stdint.h>

#include "base/str.h"
#include "io/secret_box.h"

struct api_key;
struct err;
struct keys;
struct store;

#define CREDENTIALS_OF_TEAM_MAX 2000u /* of a team and all of its users */

enum credential_scope { CREDENTIAL_TEAM, CREDENTIAL_USER };

struct credentials {
        struct store *store; /* borrowed, as the next two */
        const struct keys *keys;
        int64_t (*now_ns)(void);
        struct secret_keys secret; /* none: credentials cannot be set or used */
};

/* key_fd: the file secret-key; borrowed; -1: there is none.  What was encrypted with an older key of that file is encrypted anew
 * with the first.  Credentials whose key is not there are logged, and stay. */
int credentials_init(struct credentials *c, struct store *store, const struct keys *keys, int key_fd,
                     int64_t (*now_ns)(void), struct err *err);
void credentials_done(struct credentials *c); /* also zeroed */

/* For the team of the key, or for its user.  ERR_INVALID: name or value (model/credential/credential.h).  ERR_CONFLICT: there are as
 * many as may be.  ERR_UNAVAILABLE: there is no key to encrypt with. */
struct credential_place {
        const struct api_key *key;
        enum credential_scope scope;
        const char *name;
};
int credentials_set(struct credentials *c, const struct credential_place *at, struct str value, struct err *err);
int credentials_remove(struct credentials *c, const struct credential_place *at, struct err *err); /* ERR_NOT_FOUND */

/* [{"name","scope","createdAt","updatedAt","readable"}...]: those of the key's team and user.  *ret is the caller's. */
int credentials_list(const struct credentials *c, const struct api_key *key, json_t **ret, struct err *err);

/* What a new sandbox of this key gets: {"credentials":[{"name","files","env"}...]}; a user's credential is there instead of the
 * team's of the same name.  *ret is the caller's, for credential_free().  ERR_UNAVAILABLE: one of them cannot be decrypted. */
int credentials_unfold(const struct credentials *c, const struct api_key *key, json_t **ret, struct err *err);
