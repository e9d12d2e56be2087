/* json_field.h - reading the fields of a JSON object from outside: presence, type, range; errors name the field.  Pure.
 *
 * A field that is null counts as absent.  Messages begin with "validation error: ". */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct err;

/* All: 0, or ERR_INVALID.  When the field is absent, *ret keeps what it had. */
int json_field_bool(const json_t *obj, const char *name, bool *ret, struct err *err);
int json_field_int(const json_t *obj, const char *name, int64_t min, int64_t max, int64_t *ret, struct err *err);
/* Borrowed from obj. */
int json_field_text(const json_t *obj, const char *name, const char **ret, struct err *err);
int json_field_object(const json_t *obj, const char *name, json_t **ret, struct err *err);
int json_field_array(const json_t *obj, const char *name, json_t **ret, struct err *err);
/* An object whose values are all text. */
int json_field_text_map(const json_t *obj, const char *name, json_t **ret, struct err *err);
/* An array whose items are all text, at most `most` of them. */
int json_field_text_list(const json_t *obj, const char *name, size_t most, json_t **ret, struct err *err);

bool json_field_is_set(const json_t *obj, const char *name); /* there, and not null */
