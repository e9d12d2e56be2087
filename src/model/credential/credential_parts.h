/* credential_parts.h - what a credential becomes, as it is put together (credential.c), and what values must look like. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "base/str.h"

struct err;

/* All: 0, or ERR_LIMIT: out of memory. */
json_t *parts_new(void); /* NULL: out of memory */
int parts_add_file(json_t *parts, const char *path, struct str content, struct err *err);
int parts_add_variable(json_t *parts, const char *name, struct str value, struct err *err);

/* One word of printable ASCII, not longer than CREDENTIAL_TOKEN_MAX; blanks and line ends around it do not count. */
bool value_is_token(struct str value, struct str *ret_token);
bool value_is_object(struct str value); /* does it begin like a JSON object? */

/* ---- credential_lines.c: the files of git and npm ---- */
int check_git_lines(struct str value, struct err *err);
int check_npm_lines(struct str value, struct err *err);

/* ---- credential_own.c: names that are not in the table ---- */
int unfold_own(const char *name, struct str value, json_t *parts, struct err *err);
