/* multipart.h - multipart/form-data, incremental, without I/O and without holding parts in memory. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"

#define MULTIPART_BOUNDARY_MAX 200
#define MULTIPART_HEAD_MAX (8u << 10)

enum multipart_step {
        MULTIPART_MORE, /* give more bytes */
        MULTIPART_PART, /* a part begins: m->name, m->filename (m->has_filename) are set */
        MULTIPART_DATA, /* *ret_data is a piece of the current part */
        MULTIPART_END,  /* the current part ends */
        MULTIPART_DONE, /* closing boundary seen; further bytes are ignored */
        MULTIPART_BAD,
        MULTIPART_TOO_BIG, /* part head over MULTIPART_HEAD_MAX */
};

struct multipart {
        struct buf delim; /* "\r\n--boundary" */
        struct buf head;  /* of the part being read */
        struct buf name, filename;
        bool has_filename;
        unsigned state;
        const char *why; /* after BAD: short static text */
};
/* content_type: the header's value.  -EINVAL when it is no multipart/form-data with a valid boundary. */
int multipart_init(struct multipart *m, struct str content_type);
void multipart_done(struct multipart *m);
/* Works on p[0..n); *ret_used bytes are dealt with.  Bytes that may begin a boundary are not used yet: the caller keeps
 * them and feeds them again with more behind (so its buffer must hold at least MULTIPART_BOUNDARY_MAX + 8 bytes). */
enum multipart_step multipart_feed(struct multipart *m, const void *p, size_t n, size_t *ret_used,
                                   struct str *ret_data);
