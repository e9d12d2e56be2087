/* json_document.h - a JSON object from outside, bounded in size and depth before anything is made of it.  Pure. */
#pragma once
#include <jansson.h>

#include "base/str.h"

struct err;

#define JSON_DOCUMENT_DEPTH_MAX 64

/* *ret is the caller's: an object, or an array.  ERR_INVALID names `what`. */
int json_document_parse(struct str text, size_t bytes_max, const char *what, json_t **ret, struct err *err);
int json_document_parse_array(struct str text, size_t bytes_max, const char *what, json_t **ret, struct err *err);
