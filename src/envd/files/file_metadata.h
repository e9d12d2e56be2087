/* file_metadata.h - the clients' own notes on a file: extended attributes "user.e2b.<key>", in uploads headers
 * X-Metadata-<key>. */
#pragma once
#include <jansson.h>

#include "envd/rpc/fault.h"
#include "wire/http1.h"

#define FILE_METADATA_KEY_MAX 246
#define FILE_METADATA_TOTAL_MAX 4096 /* of 9 + key + value, summed up */

/* {key: text} of the file (links are followed); NULL when the file has none, or without memory. */
json_t *file_metadata_read(const char *path);

/* The X-Metadata-* headers as {key: text}.  -1 with invalid_argument "invalid metadata: ...". */
int file_metadata_from_headers(const struct http1_head *head, json_t **ret, struct fault *f);
/* Replace the metadata of the file by `want` (NULL: none).  0 or negative errno; a file system without attributes is
 * no failure. */
int file_metadata_replace(int fd, const json_t *want);
