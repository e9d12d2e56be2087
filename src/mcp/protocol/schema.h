/* schema.h - are these arguments what the schema of a tool says?
 *
 * Knows the part of JSON Schema that the tools use: type (also of array items), properties, required, enum, minimum, maximum,
 * minLength, maxLength, minItems, maxItems, additionalProperties: false.  Texts with a NUL are never valid: no path and no command has one. */
#pragma once
#include <jansson.h>

struct err;

/* 0, or negative with words that name the argument. */
int schema_check(const json_t *schema, const json_t *value, struct err *err);
