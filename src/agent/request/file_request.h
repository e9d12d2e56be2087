/* file_request.h - bodies of requests about files, and files and entries as the agent API shows them.  Pure. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"

struct err;

struct file_request {
        const char *path;   /* borrowed from the body */
        struct str content; /* borrowed from the body, or from `bytes` */
        struct buf bytes;   /* decoded base64 */
};
/* {"path","content","encoding"?}.  ERR_INVALID names the field.  On success *ret is the caller's: file_request_done(). */
int file_request_decode(const json_t *body, struct file_request *ret, struct err *err);
void file_request_done(struct file_request *f);

/* A required path in the body, without NUL. */
int file_path_decode(const json_t *body, const char *field, const char **ret, struct err *err);
/* {"path","content"}, and "encoding": "base64" if it is no UTF-8, or has a NUL.  New; NULL: out of memory. */
json_t *file_show(const char *path, struct str content);
/* An EntryInfo of envd.  New; NULL: out of memory. */
json_t *file_entry_show(const json_t *entry);
