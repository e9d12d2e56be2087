/* accept_encoding.h - which encoding a download is sent in.  Pure. */
#pragma once
#include "base/str.h"

enum accept_encoding {
        ACCEPT_IDENTITY,
        ACCEPT_GZIP,          /* gzip is preferred, identity is accepted */
        ACCEPT_GZIP_ONLY,     /* identity is refused */
        ACCEPT_NOTHING_KNOWN, /* gzip and identity are refused */
};

/* The encoding for this value of Accept-Encoding.  Identity wherever the client accepts it as well: most clients
 * name all encodings they know, and compressing costs more than a local connection gains.  gzip for clients that
 * name it alone or first, or refuse identity. */
enum accept_encoding accept_encoding_choose(struct str value);
