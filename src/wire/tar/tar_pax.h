/* tar_pax.h - the records of a pax header: "27 path=some/name\n", checked one by one.  For tar_read.c. */
#pragma once
#include "wire/tar/tar.h"

struct tar_pax {               /* what a header has said; zeroed: nothing */
        struct buf text;       /* its bytes, into which the rest points */
        struct str path, link; /* NULL: not said */
        bool has_size, has_uid, has_gid, has_mtime, has_sparse_major, has_real_size;
        uint64_t size, real_size;
        uint32_t uid, gid, sparse_major, sparse_minor;
        int64_t mtime_s;
        uint32_t mtime_ns;
        struct str sparse_name;
        struct tar_xattr *xattrs; /* owned */
        size_t xattr_count;
};

void tar_pax_reset(struct tar_pax *p);
void tar_pax_done(struct tar_pax *p);
/* Read the records in p->text.  NULL, or what is wrong.  A global header says nothing about names and sizes. */
const char *tar_pax_parse(struct tar_pax *p, bool is_global);
