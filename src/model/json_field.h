/* json_field.h - fields of JSON objects.  Reading what comes from outside: presence, type, range; errors name the field.
 * Writing what may be left out: whole or not at all.  Pure.
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

/* obj with one more field: obj itself, or NULL, and obj released, when anything failed before or now.  Steals value.
 * (json_pack()'s optional fields are left out silently when memory runs short; a token must not be.) */
json_t *json_with(json_t *obj, const char *name, json_t *value);
json_t *json_with_text(json_t *obj, const char *name, const char *text); /* text NULL: obj as it is */
json_t *json_with_ref(json_t *obj, const char *name, json_t *value);     /* not stolen; NULL: obj as it is */
