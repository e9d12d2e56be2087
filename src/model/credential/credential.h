/* credential.h - credentials of the tools that agents use: which values are taken, and what a sandbox gets of each.  Pure.
 *
 * A value is text.  Where a tool keeps its credentials in a file, the value may be that file's content; most take a key or token
 * alone, too.  What a sandbox gets is files below its user's home, and environment variables.  docs/credentials.md has the table
 * for people.  No error repeats anything of a value. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct err;

#define CREDENTIAL_NAME_MAX 64u
#define CREDENTIAL_VALUE_MAX (64u << 10)
#define CREDENTIAL_TOKEN_MAX 8192u
#define CREDENTIAL_FILES_MAX 16u /* of a credential of one's own kind; likewise variables */
#define CREDENTIAL_PATH_MAX 200u
#define CREDENTIAL_PATH_PARTS_MAX 16u
#define CREDENTIAL_MODE 0600

#define CREDENTIALS_MAX 32u                /* of a team itself, and likewise of each user */
#define CREDENTIALS_BYTES_MAX (512u << 10) /* of all of these */
/* What a sandbox gets at most: its team's and its user's. */
#define CREDENTIALS_GIVEN_MAX (2 * CREDENTIALS_MAX)
#define CREDENTIALS_GIVEN_BYTES_MAX (2 * CREDENTIALS_BYTES_MAX)

/* Letters, digits, "-", "_" and ".", beginning with a letter or "_". */
bool credential_name_is_valid(struct str name);

/* What a sandbox gets: {"files":[{"path","mode","content"}...],"env":{name: text}}.  *ret is the caller's, to be released with
 * credential_free().  ERR_INVALID: the value does not fit the name; the message says what is expected. */
int credential_unfold(const char *name, struct str value, json_t **ret, struct err *err);

/* Blanks every text in it before it is released.  Nobody else holds on to parts of it. */
void credential_free(json_t *v);
/* Blanks only. */
void credential_blank(json_t *v);
