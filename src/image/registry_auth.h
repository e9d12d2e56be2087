/* registry_auth.h - the credentials that a client gives for an image (`fromImageRegistry`), and how those of the clouds are
 * exchanged for a user name and a password.  Pure, but for the randomness in a signature.
 *
 * Credentials never get into errors or logs. */
#pragma once
#include <jansson.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

struct err;
struct image_ref;

enum registry_auth_kind { REGISTRY_AUTH_NONE, REGISTRY_AUTH_PASSWORD, REGISTRY_AUTH_AWS, REGISTRY_AUTH_GCP };

struct registry_auth {
        enum registry_auth_kind kind;
        char *username, *password;      /* owned; REGISTRY_AUTH_PASSWORD, and what the others are exchanged for */
        char *key_id, *secret, *region; /* owned; REGISTRY_AUTH_AWS */
        char *service_account;          /* owned; REGISTRY_AUTH_GCP: JSON */
};

/* obj NULL or null: none.  ERR_INVALID names the field. */
int registry_auth_decode(const json_t *obj, struct registry_auth *ret, struct err *err);
void registry_auth_done(struct registry_auth *a); /* wipes what it had */

/* Credentials of a cloud are for the registries of this cloud only.  ERR_DENIED. */
int registry_auth_check_host(const struct registry_auth *a, const struct image_ref *ref, struct err *err);

/* ---- AWS: GetAuthorizationToken of ECR, signed by Signature Version 4 ---- */

#define AWS_TARGET "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken"
#define AWS_CONTENT_TYPE "application/x-amz-json-1.1"
#define AWS_BODY "{}"

struct aws_signed {              /* headers of the request */
        char date[17];           /* X-Amz-Date */
        char authorization[512]; /* Authorization */
};

/* host: as in the header Host, with a port that is not the default; now_s: seconds since 1970. */
int aws_sign(const struct registry_auth *a, const char *host, int64_t now_s, struct aws_signed *ret, struct err *err);
/* The answer's authorizationToken becomes username and password of `a`. */
int aws_take_token(struct registry_auth *a, struct str answer, struct err *err);

/* ---- GCP: a signed assertion is exchanged for an access token (RFC 7523) ---- */

#define GCP_TOKEN_URL "https://oauth2.googleapis.com/token"

/* Append the form for the token service: grant type and assertion, signed with the key of the service account.  audience: the
 * service's URL. */
int gcp_token_form(const struct registry_auth *a, const char *audience, int64_t now_s, struct buf *out,
                   struct err *err);
/* The answer's access_token becomes username and password of `a`. */
int gcp_take_token(struct registry_auth *a, struct str answer, struct err *err);

/* Text of a token that can stand in a header: printable, without blanks, not empty, at most `most` bytes. */
bool registry_token_is_valid(const char *token, size_t most);
#define REGISTRY_TOKEN_MAX (16u << 10)
