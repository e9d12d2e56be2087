/* text_field.h - fields of bodies that are text without a NUL: names, paths, variables.  Pure.
 *
 * Bodies may have NULs, since contents of files have.  In other texts what is behind a NUL would be lost without a word.
 * ERR_INVALID names the field. */
#pragma once
#include <jansson.h>
#include <stddef.h>

struct err;

/* As those of model/json_field.h. */
int text_field(const json_t *body, const char *name, const char **ret, struct err *err);
int text_field_map(const json_t *body, const char *name, json_t **ret, struct err *err);
int text_field_list(const json_t *body, const char *name, size_t most, json_t **ret, struct err *err);
/* "env": {name: text}; a name is neither empty nor has it a '='. */
int text_field_env(const json_t *body, json_t **ret, struct err *err);
/* "user": the name of one. */
int text_field_user(const json_t *body, const char **ret, struct err *err);
