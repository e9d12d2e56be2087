/* auth.h - who may call: the access token, signed URLs; and on whose behalf: the Basic user name. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "envd/rpc/settings.h"
#include "wire/http1.h"
#include "wire/signature.h"

/* Is the request's X-Access-Token the sandbox's?  Always true for a sandbox without a token. */
bool auth_token_is_valid(const struct settings *s, const struct http1_head *head);

/* User name of an Authorization: Basic header, malloc'd; *ret NULL when there is no (well-formed) one.  -ENOMEM. */
int auth_basic_user(const struct http1_head *head, char **ret);

struct auth_signed { /* query parameters of /files, decoded; NULL: absent */
        const char *path, *user, *signature, *expiration;
};
/* "v1_..." for an operation ("read", "write"). */
void auth_signature(const struct auth_signed *q, const char *operation, const char *token, char out[SIGNATURE_MAX]);
/* May the request to /files go on?  NULL: yes; otherwise the text of a 401.  The caller has checked that the
 * expiration is a number. */
const char *auth_files(const struct settings *s, const struct http1_head *head, const struct auth_signed *q,
                       const char *operation, int64_t now_s);
