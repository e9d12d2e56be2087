/* accept_encoding.h - which encoding a download is sent in.  Pure. */
#pragma once
#include "base/str.h"

enum accept_encoding {
        ACCEPT_IDENTITY,
        ACCEPT_GZIP,          /* rather packed, as it is would do too */
        ACCEPT_GZIP_ONLY,     /* not as it is */
        ACCEPT_NOTHING_KNOWN, /* neither */
};

/* By the value of Accept-Encoding.  As it is wherever that is as good: most clients offer all they know, and packing
 * costs more than a local connection gains.  Packed for those who name gzip alone, or first, or refuse the other. */
enum accept_encoding accept_encoding_choose(struct str value);
