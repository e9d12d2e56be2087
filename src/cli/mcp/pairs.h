/* pairs.h - an argument that is an object of texts, as the library takes it. */
#pragma once
#include <jansson.h>
#include <sandglass.h>

/* *ret: an array for free(), with texts of `object`; NULL for an object that is not there.  -ENOMEM. */
int pairs_of(const json_t *object, struct sg_pair **ret);
json_t *pairs_to_json(const struct sg_pair *pairs); /* NULL pairs: an empty object; NULL: no memory */
