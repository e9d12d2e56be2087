/* host_files_write.h - the directory of host_files.h, from what it is to hold. */
#pragma once
#include <jansson.h>

#include "base/str.h"

struct ca_certs;
struct err;

struct host_content {
        const struct ca_certs *certs; /* of the operator's */
        struct str bundle;            /* the host's authorities, as PEM; empty: none */
        struct str resolv_conf;
        const json_t *env; /* the setting sandbox_env; NULL: none */
};

/* Nothing is written if `given` has the same content, of this boot.  Not flushed: after a power cut it is made again. */
int host_files_write(const char *data_dir, const struct host_content *c, struct err *err);
