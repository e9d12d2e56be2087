/* template_request.h - the body of POST /v3/templates and POST /v2/templates, decoded and checked.  Pure. */
#pragma once
#include <jansson.h>
#include <stdint.h>

#include "model/template_ref.h"

struct err;

struct template_request {
        struct template_ref name; /* without its tag, which is one of `tags` */
        json_t *tags;             /* owned; at least one */
        uint32_t cpu_count, memory_mb;
        uint32_t min_free_mb; /* 0: none is asked for */
};

struct template_request_limits {
        const char *slug; /* the namespace of the team that asks */
        uint32_t default_cpus, default_memory_mb;
        uint32_t cpus_max, memory_max_mb, disk_max_mb;
};

/* ERR_INVALID: the message is what the client gets.  On success *ret is the caller's: template_request_done(). */
int template_request_decode(const json_t *body, const struct template_request_limits *limits,
                            struct template_request *ret, struct err *err);
void template_request_done(struct template_request *r); /* zeroed is fine */
