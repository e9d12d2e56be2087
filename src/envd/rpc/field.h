/* field.h - fields of a request message in the JSON mapping of proto3: types and ranges checked, the field named.
 *
 * Names are given in lowerCamelCase; messages may use the snake_case form as well.  Absent and null mean the default.
 * All return 0, or -1 with *f set to invalid_argument. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "envd/rpc/fault.h"

/* The value, or NULL when the field is absent or null. */
json_t *field_get(const json_t *obj, const char *name);

int field_text(const json_t *obj, const char *name, const char **ret, struct fault *f); /* borrowed; absent: NULL */
int field_bool(const json_t *obj, const char *name, bool *ret, struct fault *f);        /* absent: *ret is kept */
int field_u32(const json_t *obj, const char *name, uint32_t *ret, struct fault *f);     /* absent: 0 */
int field_object(const json_t *obj, const char *name, json_t **ret, struct fault *f);   /* borrowed; absent: NULL */
/* {name: text}; absent: NULL.  Every value is checked to be text. */
int field_text_map(const json_t *obj, const char *name, json_t **ret, struct fault *f);
int field_text_list(const json_t *obj, const char *name, json_t **ret, struct fault *f);
/* Base64 text, decoded and appended to out.  *ret_present says whether the field was there. */
int field_bytes(const json_t *obj, const char *name, struct buf *out, bool *ret_present, struct fault *f);
