/* blobs.h - the directory of downloads: sha256/<hex> is complete and has that sum, .tmp-<hex> is what came so far.
 *
 * Used by several threads at once.  A blob is written by one of them at a time: whoever has claimed it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "image/image_ref.h"
#include "wire/sha256.h"

struct err;
struct blobs; /* opaque */

/* Removes what is older than kept_s.  *ret is the caller's. */
int blobs_create(const char *path, uint32_t kept_s, struct blobs **ret, struct err *err);
struct blobs *blobs_free(struct blobs *b);

/* All digests have been checked: image_digest_is_valid(). */
bool blobs_has(struct blobs *b, const char *digest);                               /* and counts as used now */
int blobs_open(struct blobs *b, const char *digest, int *ret_fd, struct err *err); /* read-only; ERR_NOT_FOUND */
void blobs_remove(struct blobs *b, const char *digest);    /* also a part of it; not while somebody writes it */
bool blobs_try_claim(struct blobs *b, const char *digest); /* false: another has it, or out of memory */
void blobs_release(struct blobs *b, const char *digest);
/* ERR_NO_SPACE, when the disk has less room than that. */
int blobs_check_room(struct blobs *b, uint64_t bytes, struct err *err);

struct blob_file {           /* one that is being written */
        struct blobs *blobs; /* borrowed */
        int fd;              /* owned; -1: closed */
        char name[80];       /* of the file */
        uint64_t bytes;      /* written, and in `sum` */
        struct sha256 sum;
};

/* Go on with what an earlier attempt left of a blob, if that is less than `bytes`; else begin. */
int blob_file_resume(struct blob_file *f, struct blobs *b, const char *digest, uint64_t bytes, struct err *err);
/* Begin a file whose sum is not known yet. */
int blob_file_begin(struct blob_file *f, struct blobs *b, struct err *err);
int blob_file_write(struct blob_file *f, const void *p, size_t n, struct err *err);
int blob_file_restart(struct blob_file *f, struct err *err); /* forget all bytes */
/* Close it, and put it in place under its sum, which `digest` must be (NULL: any).  ERR_INVALID: it has another sum, and is
 * removed.  ret_digest and ret_was_there (there was one with this sum already) may be NULL. */
int blob_file_finish(struct blob_file *f, const char *digest, char *ret_digest, bool *ret_was_there, struct err *err);
void blob_file_close(struct blob_file *f, bool keep); /* give up; keep: the next attempt goes on there */
